// A mutex of four bytes for short sections in the path of every operator. Without contention, lock() and unlock() take one atomic
// operation each.
//
//   const std::lock_guard lock(lock_);
#pragma once

#include <atomic>
#include <cstdint>

namespace torch_npu {

class Lock {
 public:
  void lock() noexcept {
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }
  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kWanted) [[unlikely]]
      state_.notify_one();
  }

 private:
  enum : uint32_t { kFree, kHeld, kWanted };

  [[gnu::noinline]] void lock_slowly() noexcept {
    while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) state_.wait(kWanted, std::memory_order_relaxed);
  }

  std::atomic<uint32_t> state_{kFree};
};

}  // namespace torch_npu
