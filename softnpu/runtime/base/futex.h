// Futexes, and a lock and a wake-up signal built on them.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/deadline.h"

namespace softnpu {

// Sleeps while `word` holds `expected`, until woken or `deadline`. Spurious wake-ups happen: callers loop.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, Deadline deadline);
void futex_wake_one(std::atomic<uint32_t>& word);

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A mutex of four bytes. Without contention, locking and unlocking take one atomic operation each (a third of the time of
// std::mutex); with contention it sleeps. Works with std::lock_guard.
class Lock {
 public:
  void lock() {
    uint32_t free = kFree;
    if (!state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }
  bool try_lock() {
    uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWanted) [[unlikely]]
      futex_wake_one(state_);
  }

 private:
  enum : uint32_t { kFree, kHeld, kWanted };
  void lock_slowly();

  std::atomic<uint32_t> state_{kFree};
};

// Wakes one waiting thread. raise() before wait() makes that wait() return at once. raise() makes a system call only if a thread
// sleeps in wait().
class Signal {
 public:
  // Returns once raise() was called since the last wait(), or at the deadline.
  void wait(Deadline deadline = Deadline::never()) {
    uint32_t quiet = kQuiet;
    if (state_.compare_exchange_strong(quiet, kSleeping, std::memory_order_seq_cst)) {
      while (state_.load(std::memory_order_seq_cst) == kSleeping && !deadline.passed()) futex_wait(state_, kSleeping, deadline);
    }
    state_.exchange(kQuiet, std::memory_order_seq_cst);
  }
  void raise() {
    if (state_.exchange(kRaised, std::memory_order_seq_cst) == kSleeping) futex_wake_one(state_);
  }

 private:
  enum : uint32_t { kQuiet, kRaised, kSleeping };
  std::atomic<uint32_t> state_{kQuiet};
};

}  // namespace softnpu
