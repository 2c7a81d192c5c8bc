// The Work object that a collective of a process group returns.
//
//   work->wait();            // the current stream waits; the host does not
//
// With TORCH_HCCL_BLOCKING_WAIT=1, with a timeout, and for a barrier, wait() returns when the operation is done. It throws a
// c10::DistBackendError that names the rank, the operation, its number and its tensors if the operation failed, was aborted, or
// takes longer than the timeout. A failure of an operation that was not waited for on the host is raised by the next call that
// waits for the stream. Such waits can be interrupted.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "distributed/operation.h"

namespace torch_npu::distributed {

class WorkHCCL : public c10d::Work {
 public:
  // `title` is the name in profiles.
  WorkHCCL(std::shared_ptr<Operation> operation, std::vector<at::Tensor> outputs, int rank, const char* title,
           const std::vector<at::Tensor>& inputs);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override { return operation_->exception(); }
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void blockCurrentStream() override { synchronize(); }
  // Aborts the group.
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return operation_->sequence; }

  // Called once, after the launch. An operation on a stream of the group has its future at once, and later work of that stream
  // does not delay it.
  void launched(bool with_future);

 private:
  void complete_future();
  void rethrow_failure() const;
  void wait_on_host(std::chrono::milliseconds timeout);
  bool wait_for_a_moment();

  const std::shared_ptr<Operation> operation_;
  const std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// A message that was issued between startCoalescing() and endCoalescing(). It is done when its batch is done. Waiting for it
// before endCoalescing() is an error.
class BatchedWork : public c10d::Work {
 public:
  using c10d::Work::Work;

  bool isCompleted() override { return batch_ && batch_->isCompleted(); }
  void synchronize() override { batch().synchronize(); }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override { return batch().wait(timeout); }
  void launched_with(c10::intrusive_ptr<c10d::Work> batch) { batch_ = std::move(batch); }

 private:
  c10d::Work& batch() const;

  c10::intrusive_ptr<c10d::Work> batch_;
};

}  // namespace torch_npu::distributed
