// Makes the call of a case on device 0, in this process.
#pragma once

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {

enum class Result : uint8_t {
  kRefused,    // by phase one
  kSucceeded,  //
  kLate,       // phase one took it, and it failed afterwards
  kOutside,    // it wrote to memory that is not its own
};

struct Outcome {
  Result result = Result::kRefused;
  char message[1024] = {};  // why, unless it succeeded
};

// Red zones and guard pages on, no log. Before the device is used.
void set_environment();
void start_device();
void run(const Case& one, Outcome& outcome);

}  // namespace softnpu::fuzz
