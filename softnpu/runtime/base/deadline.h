// The time until which a call may wait.
//
//   const Deadline deadline = Deadline::after(std::chrono::seconds(2));
//   while (!done() && !deadline.passed()) ...
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/base/status.h"

namespace softnpu {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline after(std::chrono::nanoseconds span) { return Deadline(Clock::now() + span); }
  // AscendCL's convention for time-outs: -1 waits without limit, a lower value is ACL_ERROR_RT_PARAM_INVALID.
  static Result<Deadline> after_milliseconds(int32_t milliseconds) {
    if (milliseconds == -1) return never();
    if (milliseconds >= 0) return after(std::chrono::milliseconds(milliseconds));
    return Status(ACL_ERROR_RT_PARAM_INVALID, text("time-out ", milliseconds, " is negative; -1 means for ever"));
  }

  Deadline() : Deadline(Clock::time_point::max()) {}

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !is_never() && Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace softnpu
