#include "runtime/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace softnpu {
namespace {

constexpr int kSpinsBeforeSleep = 100;

timespec to_timespec(Deadline deadline) {
  const auto since_boot = deadline.at().time_since_epoch();  // steady_clock is CLOCK_MONOTONIC
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot - seconds);
  return {.tv_sec = seconds.count(), .tv_nsec = rest.count()};
}

}  // namespace

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, Deadline deadline) {
  timespec until{};
  if (!deadline.is_never()) until = to_timespec(deadline);
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline.is_never() ? nullptr : &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_one(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

void Lock::lock_slowly() {
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    cpu_relax();
    if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
  }
  while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) futex_wait(state_, kWanted, Deadline::never());
}

}  // namespace softnpu
