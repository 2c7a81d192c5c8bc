// Runs several actions, although some of them throw, and throws the first exception afterwards.
//
//   FirstFailure failure;
//   for (Block* block : blocks) failure.attempt([&] { release(block); });
//   failure.rethrow();
//
// Not thread-safe.
#pragma once

#include <exception>

namespace torch_npu {

class FirstFailure {
 public:
  // Returns false if `action` threw.
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
  // Throws the first exception; returns if there was none.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace torch_npu
