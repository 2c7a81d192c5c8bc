// Holds a stream until it is opened, so that a test decides when the work behind it runs.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "acl/symbol.h"
#include "core/stream/stream.h"

namespace torch_npu {

class Gate {
 public:
  explicit Gate(NPUStream stream) : is_open_(std::make_shared<std::atomic<bool>>(false)) {
    const BoundDevice bound(stream.device_index());
    auto* shared = new std::shared_ptr<std::atomic<bool>>(is_open_);
    ACL_CALL(aclrtLaunchHostFunc, stream.stream(), wait, shared);
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() { is_open_->store(true); }

 private:
  static void wait(void* argument) {
    const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> shared(static_cast<std::shared_ptr<std::atomic<bool>>*>(argument));
    while (!(*shared)->load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  std::shared_ptr<std::atomic<bool>> is_open_;
};

}  // namespace torch_npu
