#include "distributed/work.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include "base/options.h"
#include "core/guard.h"
#include "core/stream/after_synchronize.h"
#include "core/stream/sync_debug.h"
#include "core/stream/wait.h"
#include "distributed/group.h"
#include "distributed/watchdog.h"

namespace torch_npu::distributed {

WorkHCCL::WorkHCCL(std::shared_ptr<Operation> operation, std::vector<at::Tensor> outputs, int rank, const char* title,
                   const std::vector<at::Tensor>& inputs)
    : c10d::Work(rank, operation->type, title, inputs), operation_(std::move(operation)), outputs_(std::move(outputs)) {}

void WorkHCCL::launched(bool with_future) {
  if (with_future) complete_future();
  if (recordFunctionEndCallback_) {
    recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
}

void WorkHCCL::complete_future() {
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     std::vector<c10::Device>{operation_->stream.device()});
  const NPUStreamGuard guard(operation_->stream.unwrap());
  future_->markCompleted(c10::IValue(outputs_));
}

c10::intrusive_ptr<c10::ivalue::Future> WorkHCCL::getFuture() {
  const std::lock_guard lock(mutex_);
  if (!future_) complete_future();
  return future_;
}

bool WorkHCCL::isCompleted() { return operation_->has_failed() || operation_->is_done(); }

bool WorkHCCL::isSuccess() const { return operation_->has_succeeded(); }

void WorkHCCL::synchronize() {
  const NPUStream current = current_stream_of(operation_->stream.device_index());
  if (current != operation_->stream) {
    operation_->block(current);
    if (!operation_->is_captured) operation_->group->add_waiter(current);
  }
  if (current == operation_->caller || operation_->is_captured) operation_->release();  // else the watchdog does
}

void WorkHCCL::rethrow_failure() const {
  if (const std::exception_ptr failure = exception()) {
    program_took_notice();
    std::rethrow_exception(failure);
  }
}

bool WorkHCCL::wait(std::chrono::milliseconds timeout) {
  rethrow_failure();
  if (!operation_->group->has_failed()) synchronize();
  const bool blocks = operation_->blocks_host || options().blocking_wait || timeout != kNoTimeout;
  if ((blocks && !operation_->is_captured) || operation_->group->has_failed()) wait_on_host(timeout);
  return true;
}

void WorkHCCL::abort() {
  program_took_notice();
  const std::string reason = c10::str(operation_->describe_fully(), " was aborted by the program");
  operation_->group->fail(reason, c10d::ErrorType::COMM_ERROR);
  operation_->group->abort(reason);
}

// True if the operation is done. Throws if it failed.
bool WorkHCCL::wait_for_a_moment() {
  try {
    return operation_->wait_briefly();
  } catch (const c10::Error& error) {
    rethrow_failure();
    // An aborted collective returns the code of a refused wait.
    const bool is_unfinished = dynamic_cast<const WaitUnfinished*>(&error) != nullptr;
    if (is_unfinished && !operation_->group->has_failed()) throw;
    program_took_notice();
    operation_->fail_now(c10::str("failed: ", error.what_without_backtrace()));
  }
}

void WorkHCCL::wait_on_host(std::chrono::milliseconds timeout) {
  report_sync("Work.wait()", "it waits for a collective on the host");
  const auto start = std::chrono::steady_clock::now();
  while (!wait_for_a_moment()) {
    rethrow_failure();
    if (timeout != kNoTimeout && std::chrono::steady_clock::now() - start >= timeout) {
      C10_THROW_ERROR(DistBackendError, c10::str(operation_->describe_fully(), " is not done after ", timeout.count(),
                                                 " ms, the timeout of wait(). It goes on; another rank may not have called it."));
    }
    check_interrupt();
  }
  // The device reports a failure once. The call that left or aborted the group may already have received it.
  if (operation_->group->has_failed() && operation_->is_done() && !operation_->has_succeeded()) {
    program_took_notice();
    operation_->fail_now(c10::str("did not succeed before its group failed: ", operation_->group->failure()));
  }
  operation_->release();
  after_synchronize();
}

c10d::Work& BatchedWork::batch() const {
  TORCH_CHECK(batch_, "this message is part of a batch; wait for it after endCoalescing()");
  return *batch_;
}

}  // namespace torch_npu::distributed
