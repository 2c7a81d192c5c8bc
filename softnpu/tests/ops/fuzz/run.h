// Runs the call of a case on device 0, in this process.
#pragma once

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {

enum class Result : uint8_t {
  kRefused,    // by phase one
  kSucceeded,  //
  kLate,       // phase one accepted the call, and it failed later
  kOutside,    // the call wrote outside of its tensors
};

struct Outcome {
  Result result = Result::kRefused;
  char message[1024] = {};  // the reason, unless the call succeeded
};

// Switches red zones and guard pages on and the log off. To be called before the device is used.
void set_environment();
void start_device();
void run(const Case& one, Outcome& outcome);

}  // namespace softnpu::fuzz
