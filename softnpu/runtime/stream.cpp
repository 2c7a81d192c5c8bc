#include "runtime/stream.h"

#include "runtime/callback.h"
#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/exception.h"
#include "runtime/log.h"
#include "runtime/process.h"
#include "runtime/races.h"
#include "runtime/thread_state.h"

namespace softnpu {

Status Stream::open(Context& context, uint32_t priority) {
  Result<std::unique_ptr<EngineQueue>> made = engine().make_queue(context.device().host_number());
  if (!made.ok()) return made.take_status();
  engine_queue_ = std::move(made.value());
  context_ = &context;
  host_number_ = context.device().host_number();
  priority_ = priority;
  is_recorded.store(false, std::memory_order_relaxed);
  is_lane.store(false, std::memory_order_relaxed);
  stop_on_failure.store(false, std::memory_order_relaxed);
  overflow_switch.store(0, std::memory_order_relaxed);
  custom_tag.store(0, std::memory_order_relaxed);
  cache_op_info.store(0, std::memory_order_relaxed);
  reset_core_limits();
  abort_reason_.store(ACL_ERROR_RT_STREAM_ABORT, std::memory_order_relaxed);
  queue_.open(*this, slot(), priority);
  return {};
}

void Stream::close() {
  Reports::instance().forget(*this);
  if (is_recorded.load(std::memory_order_relaxed)) captures().forget(*this);
  const auto give_back = [](void* argument) {
    auto& stream = *static_cast<Stream*>(argument);
    if (races_are_checked()) {  // what was dropped will not touch memory any more
      RaceClock end;
      end.learn(stream.queue_.number(), stream.queue_.submitted());
      races().host_learns(end);
    }
    stream_pool().give_back(stream);
  };
  queue_.close(give_back, this);
}

void Stream::reset_core_limits() {
  for (size_t kind = 0; kind < core_limits.size(); ++kind) {
    core_limits[kind].store(device().core_limits[kind].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
}

Device& Stream::device() const { return context_->device(); }

Status Stream::submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost) {
  if (is_recorded.load(std::memory_order_relaxed)) [[unlikely]] {
    if (std::optional<Status> recorded = captures().record(*this, kind, payload, bytes, cost)) return std::move(*recorded);
  }
  if (queue_.has_failed()) [[unlikely]]
    SOFTNPU_RETURN_IF_ERROR(context_->stop_reason());
  return queue_.submit(kind, payload, bytes, cost);
}

Status Stream::submit_wait(QueueMark mark, std::chrono::seconds timeout, WaitOver over) {
  if (queue_.has_failed()) [[unlikely]]
    SOFTNPU_RETURN_IF_ERROR(context_->stop_reason());
  return queue_.submit_wait(mark, timeout, over);
}

Status Stream::wait_for(QueueMark mark) {
  if (mark.queue == nullptr || mark.queue == &queue_) return {};
  if (races_are_checked()) races().stream_learns(queue_.number(), races().clock_at(mark.queue->number(), mark.ticket));
  if (mark.queue->reached(mark.ticket) && !mark.queue->has_failed()) return {};
  return submit_wait(mark, std::chrono::seconds(0));
}

Status Stream::synchronize(Deadline deadline) {
  SOFTNPU_RETURN_IF_ERROR(wait(deadline));
  return take_failure();
}

Status Stream::synchronize(Ticket ticket, Deadline deadline) {
  SOFTNPU_RETURN_IF_ERROR(wait(ticket, deadline));
  return take_failure();
}

bool Stream::await(Ticket ticket, Deadline deadline) {
  if (!races_are_checked()) return queue_.wait(ticket, deadline);
  const RaceClock then = races().clock_at(queue_.number(), ticket);
  if (!queue_.wait(ticket, deadline)) return false;
  races().host_learns(then);
  return true;
}

bool Stream::query() {
  TaskQueue::poll();
  const Ticket newest = queue_.submitted();
  if (!queue_.reached(newest)) return false;
  if (races_are_checked()) races().host_learns(races().clock_at(queue_.number(), newest));
  return true;
}

Status Stream::wait(Deadline deadline) { return wait(queue_.submitted(), deadline); }

Status Stream::wait(Ticket ticket, Deadline deadline) {
  if (is_recorded.load(std::memory_order_relaxed)) [[unlikely]]
    SOFTNPU_RETURN_IF_ERROR(captures().refuse_wait(*this, "waiting for"));
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  const uint32_t aborts = queue_.abort_count();
  const bool was_pending = !queue_.reached(ticket);
  if (!await(ticket, deadline)) {
    SOFTNPU_RETURN_IF_ERROR(TaskQueue::check_not_exiting());
    return {ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, text("stream ", id(), " still works after the time given; its tasks go on")};
  }
  SOFTNPU_RETURN_IF_ERROR(context_->stop_reason());
  if (was_pending && queue_.abort_count() != aborts) {
    return {abort_reason_.load(std::memory_order_relaxed),
            text("the pending tasks of stream ", id(), " were thrown away by an abort")};
  }
  return {};
}

Status Stream::abort(aclError reason, Deadline deadline) {
  abort_reason_.store(reason, std::memory_order_relaxed);
  const Ticket newest = queue_.submitted();
  queue_.skip_pending();
  if (await(newest, deadline)) return {};
  return {ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
          text("the task that runs on stream ", id(), " did not end in the time given; pending ones are dropped")};
}

std::string Stream::place() const { return text("device ", device().number(), ", stream ", id()); }

void Stream::task_failed(const SoftnpuTaskKind& kind, Ticket ticket, const Status& status) {
  SOFTNPU_LOG(kError, status.message(), " [", kind.name, "]");
  report_exception({.task_id = uint32_t(ticket),
                    .stream_id = uint32_t(id()),
                    .thread_id = 0,
                    .device_id = uint32_t(device().number()),
                    .error_code = uint32_t(status.code())});
  if (stop_on_failure.load(std::memory_order_relaxed)) context_->stop(status);
}

void Stream::running(bool begins) { ledger().running(host_number_, begins); }

StreamPool& stream_pool() {
  static auto* pool = new StreamPool;
  return *pool;
}

}  // namespace softnpu
