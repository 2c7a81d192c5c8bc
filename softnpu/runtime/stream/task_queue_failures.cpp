// Failures and aborts of a task queue.
#include <algorithm>
#include <utility>

#include "runtime/abort.h"
#include "runtime/stream/task_queue.h"
#include "runtime/stream/thread_state.h"

bool softnpuTaskIsAborted(void) {
  const softnpu::TaskQueue* const queue = softnpu::thread_state().works_for;
  return queue != nullptr && queue->task_is_aborted();
}

namespace softnpu {

rtExceptionInfo TaskQueue::note_failure(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message) {
  const Status status(code, text("task '", kind.name, "' failed: ", message, " (", observer_->place(), ", task ", ticket, ")"));
  {
    std::lock_guard guard(failure_lock_);
    if (failure_.ok()) {
      failure_ = status.copy();
      failure_ticket_ = ticket;
      skip_until_.store(kSkipAll, std::memory_order_seq_cst);
    }
  }
  return observer_->task_failed(kind, ticket, status);
}

void TaskQueue::add_origin(Ticket ticket, const std::string& origin) {
  if (origin.empty()) return;
  std::lock_guard guard(failure_lock_);
  if (failure_.ok() || failure_ticket_ != ticket) return;
  std::string message = failure_.message();
  message.pop_back();  // the closing bracket of the place
  failure_ = Status(failure_.code(), text(message, ", launched from ", origin, ")"));
}

void TaskQueue::fail(const SoftnpuTaskKind& kind, Ticket ticket, aclError code, const char* message) {
  const rtExceptionInfo info = note_failure(kind, ticket, code, message);
  const ClientCall client(*this);
  report_exception(info);
}

Status TaskQueue::take_failure(Ticket ticket) {
  if (!has_failed()) [[likely]]
    return {};
  std::lock_guard guard(failure_lock_);
  if (failure_.ok() || failure_ticket_ > ticket) return {};
  if (stopped_) return failure_.copy();
  skip_until_.store(tail_.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
  return std::exchange(failure_, Status());
}

Status TaskQueue::failure_before(Ticket ticket) const {
  std::lock_guard guard(failure_lock_);
  return failure_ticket_ <= ticket ? failure_.copy() : Status();
}

// Call it with submit_lock_ and failure_lock_ held.
void TaskQueue::note_abort(aclError reason) {
  const Ticket done = head_.load(std::memory_order_acquire);
  const Ticket newest = tail_.load(std::memory_order_relaxed);
  if (done >= newest) return;
  const uint32_t number = aborts_.load(std::memory_order_relaxed) + 1;
  newest_aborts_[number % newest_aborts_.size()] = {done + 1, newest, reason};
  aborts_.store(number, std::memory_order_seq_cst);
}

aclError TaskQueue::abort_reason(Ticket ticket, uint32_t since) const {
  std::lock_guard guard(failure_lock_);
  const uint32_t count = aborts_.load(std::memory_order_relaxed);
  const uint32_t known = std::min<uint32_t>(count - since, uint32_t(newest_aborts_.size()));
  for (uint32_t i = 0; i < known; ++i) {
    const Abort& abort = newest_aborts_[(count - i) % newest_aborts_.size()];
    if (ticket >= abort.first && ticket <= abort.last) return abort.reason;
  }
  return ACL_SUCCESS;
}

Ticket TaskQueue::skip_pending(aclError reason, Ticket life) {
  Ticket newest = 0;
  {
    std::lock_guard order(submit_lock_);
    std::lock_guard guard(failure_lock_);
    if (closed_ || life_.load(std::memory_order_relaxed) != life) return 0;
    newest = tail_.load(std::memory_order_relaxed);
    if (!has_failed()) skip_until_.store(newest, std::memory_order_seq_cst);
    aborted_until_.store(newest, std::memory_order_release);
    note_abort(reason);
  }
  worker_signal_.raise();
  return newest;
}

void TaskQueue::stop(const Status& reason, Ticket life) {
  {
    std::lock_guard guard(failure_lock_);
    if (life_.load(std::memory_order_relaxed) != life) return;
    stopped_ = true;
    failure_ = reason.copy();
    failure_ticket_ = life;
    skip_until_.store(kSkipAll, std::memory_order_seq_cst);
  }
  worker_signal_.raise();
}

Status TaskQueue::stop_reason() const {
  std::lock_guard guard(failure_lock_);
  return stopped_ ? failure_.copy() : Status();
}

}  // namespace softnpu
