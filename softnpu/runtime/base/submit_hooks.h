// One word with a bit for each active feature that changes submitted tasks. So a submission needs one branch for all of them.
//
//   if (submit_hooks.load(std::memory_order_relaxed) == 0) [[likely]] ...
#pragma once

#include <atomic>
#include <cstdint>

namespace softnpu {

enum : uint32_t {
  kFaultHook = 1,  // fault rules are set (checks/faults.h)
  kDumpHook = 2    // operators are dumped (dump/dumps.h)
};

inline constinit std::atomic<uint32_t> submit_hooks{0};

inline void set_submit_hook(uint32_t hook, bool is_on) {
  if (is_on) {
    submit_hooks.fetch_or(hook, std::memory_order_relaxed);
  } else {
    submit_hooks.fetch_and(~hook, std::memory_order_relaxed);
  }
}

}  // namespace softnpu
