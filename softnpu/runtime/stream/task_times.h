// How long tasks took, so that a thread with little time left does not start one that takes longer.
//
//   TaskTimes::note(kind, cost, took);
//   ...
//   const auto expected = TaskTimes::expected(kind, cost);   // of the last tasks of that kind and size
//
// Kinds and sizes (in steps of a factor of four) are remembered in a table of fixed size; where that is full, a task counts as
// unknown. Thread-safe without locks; a time that is lost or mixed up costs speed, not correctness.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/driver.h"

namespace softnpu {

class TaskTimes {
 public:
  static constexpr std::chrono::nanoseconds kUnknown = std::chrono::nanoseconds::max();

  // kUnknown until one such task was noted.
  static std::chrono::nanoseconds expected(const SoftnpuTaskKind& kind, uint64_t cost);
  static void note(const SoftnpuTaskKind& kind, uint64_t cost, std::chrono::nanoseconds took);
};

}  // namespace softnpu
