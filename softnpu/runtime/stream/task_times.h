// Measured times of tasks, so that a thread that waits with a deadline does not start a task that would miss it.
//
//   TaskTimes::note(kind, cost, took);
//   ...
//   const auto expected = TaskTimes::expected(kind, cost);   // from the last tasks of that kind and size
//
// The table of kinds and sizes (in steps of a factor of four) has a fixed size. If it is full, a new kind stays unknown.
// Thread-safe without locks; a lost or wrong time affects speed only.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/driver.h"

namespace softnpu {

class TaskTimes {
 public:
  static constexpr std::chrono::nanoseconds kUnknown = std::chrono::nanoseconds::max();

  // kUnknown until note() was called for that kind and size.
  static std::chrono::nanoseconds expected(const SoftnpuTaskKind& kind, uint64_t cost);
  static void note(const SoftnpuTaskKind& kind, uint64_t cost, std::chrono::nanoseconds took);
};

}  // namespace softnpu
