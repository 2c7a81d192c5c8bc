// What the files of DeviceCache (device_cache.h) share.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <exception>

namespace torch_npu {

constexpr size_t kHugePage = 1 << 30;

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Statistics of the hit path; calls would cost more than what they do.
[[gnu::always_inline]] inline void increase(c10::CachingAllocator::StatArray& stat, bool is_small, size_t amount) {
  stat[0].increase(amount);
  stat[is_small ? 1 : 2].increase(amount);
}

[[gnu::always_inline]] inline void decrease(c10::CachingAllocator::StatArray& stat, bool is_small, size_t amount) {
  stat[0].decrease(amount);
  stat[is_small ? 1 : 2].decrease(amount);
}

// Goes on after a failure, to throw it in the end.
class FirstFailure {
 public:
  // Whether it threw nothing.
  template <typename Action>
  bool attempt(Action&& action) {
    try {
      action();
      return true;
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
      return false;
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace torch_npu
