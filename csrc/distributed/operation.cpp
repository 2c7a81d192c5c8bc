#include "distributed/operation.h"

#include "acl/symbol.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"
#include "distributed/group.h"
#include "distributed/tensor_checks.h"

namespace torch_npu::distributed {

std::string Operation::describe() const {
  std::string text = c10::str(name, is_message ? ", message number " : " number ", sequence);
  const std::vector<TensorNote>& notes = inputs.empty() ? outputs : inputs;
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < std::min(notes.size(), kMost); ++i) {
    text += c10::str(i == 0 ? " of " : ", ", text_of(notes[i].type, notes[i].sizes));
  }
  if (notes.size() > kMost) text += c10::str(" and ", notes.size() - kMost, " more");
  return text;
}

std::string Operation::describe_fully() const {
  return c10::str(group->describe(), " on npu:", static_cast<int>(communicator->device()), ": ", describe());
}

bool Operation::is_done() const { return !is_captured && event_reached(*done_); }

bool Operation::has_succeeded() const {
  if (has_failed() || !is_done()) return false;
  if (found_done() != std::chrono::system_clock::time_point{}) return true;
  // The order matters: a group fails before its communicators are destroyed.
  const bool in_order = communicator->error() == HCCL_SUCCESS || communicator->is_destroyed();
  return in_order && !group->has_failed();
}

bool Operation::wait_briefly() const {
  before_wait();
  const BoundDevice bound(stream.device_index());
  return wait_a_slice("aclrtSynchronizeEventWithTimeout", [this](int32_t milliseconds) {
    return ACL_FN(aclrtSynchronizeEventWithTimeout)(done_->handle, milliseconds);
  });
}

std::exception_ptr Operation::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

void Operation::fail(std::exception_ptr exception) {
  const std::lock_guard lock(mutex_);
  if (!exception_) exception_ = std::move(exception);
}

void Operation::fail_now(const std::string& reason) {
  fail(std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, c10::str(describe_fully(), " ", reason))));
  std::rethrow_exception(exception());
}

void Operation::hold(std::vector<at::Tensor> tensors) {
  const std::lock_guard lock(mutex_);
  held_ = std::move(tensors);
}

void Operation::release() {
  std::vector<at::Tensor> tensors;
  {
    const std::lock_guard lock(mutex_);
    tensors.swap(held_);
  }
}

}  // namespace torch_npu::distributed
