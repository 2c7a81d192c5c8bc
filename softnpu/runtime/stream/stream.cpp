#include "runtime/stream/stream.h"

#include "runtime/base/log.h"
#include "runtime/checks/races.h"
#include "runtime/memory/ledger.h"
#include "runtime/profile/recorder.h"
#include "runtime/stream/callback.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/context.h"
#include "runtime/stream/exception.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {

Status Stream::open(const Ref<Context>& context, uint32_t priority) {
  StreamDevice& device = context->device();
  Result<std::unique_ptr<EngineQueue>> made = engine().make_queue(device.host_number());
  if (!made.ok()) return made.take_status();
  const std::unique_ptr<EngineQueue> previous(engine_queue_.exchange(made.value().release(), std::memory_order_relaxed));
  context_.store(context.object, std::memory_order_relaxed);
  context_generation_.store(context.generation, std::memory_order_relaxed);
  device_.store(&device, std::memory_order_relaxed);
  priority_.store(priority, std::memory_order_relaxed);
  is_recorded.store(false, std::memory_order_relaxed);
  is_lane.store(false, std::memory_order_relaxed);
  stop_on_failure.store(false, std::memory_order_relaxed);
  overflow_switch.store(0, std::memory_order_relaxed);
  custom_tag.store(0, std::memory_order_relaxed);
  cache_op_info.store(0, std::memory_order_relaxed);
  reset_core_limits();
  queue_.open(*this, slot(), priority);
  return {};
}

void Stream::close() {
  Reports::instance().forget(*this);
  captures().forget(*this);
  const auto give_back = [](void* argument) {
    auto& stream = *static_cast<Stream*>(argument);
    if (races_are_checked()) {  // skipped tasks do not access memory any more
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

Status Stream::submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost) {
  if (is_recorded.load(std::memory_order_relaxed)) [[unlikely]] {
    if (std::optional<Status> recorded = captures().record(*this, kind, payload, bytes, cost)) {
      if (records_tasks()) forget_description();
      return std::move(*recorded);
    }
  }
  if (queue_.has_failed()) [[unlikely]]
    SOFTNPU_RETURN_IF_ERROR(queue_.stop_reason());
  return queue_.submit(kind, payload, bytes, cost);
}

Status Stream::submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, Ticket& ticket) {
  if (is_recorded.load(std::memory_order_relaxed)) [[unlikely]]
    return submit(kind, payload, bytes, cost);
  if (queue_.has_failed()) [[unlikely]]
    SOFTNPU_RETURN_IF_ERROR(queue_.stop_reason());
  return queue_.submit(kind, payload, bytes, cost, ticket);
}

Status Stream::submit_wait(QueueMark mark, std::chrono::seconds timeout, WaitOver over) {
  if (queue_.has_failed()) [[unlikely]]
    SOFTNPU_RETURN_IF_ERROR(queue_.stop_reason());
  return queue_.submit_wait(mark, timeout, over);
}

Status Stream::wait_for(QueueMark mark) {
  if (mark.queue == nullptr || mark.queue == &queue_) return {};
  if (races_are_checked()) races().stream_learns(queue_.number(), races().clock_at(mark.queue->number(), mark.ticket));
  if (mark.queue->reached(mark.ticket) && !mark.queue->has_failed()) return {};
  return submit_wait(mark, std::chrono::seconds(0));
}

Status Stream::synchronize(Deadline deadline) { return synchronize(queue_.submitted(), deadline); }

Status Stream::synchronize(Ticket ticket, Deadline deadline) {
  SOFTNPU_RETURN_IF_ERROR(wait(ticket, deadline));
  return take_failure(ticket);
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
  if (was_pending && queue_.abort_count() != aborts) [[unlikely]] {
    if (const aclError reason = queue_.abort_reason(ticket, aborts)) {
      return {reason, text("the pending tasks of stream ", id(), " were thrown away by an abort")};
    }
  }
  return {};
}

Status Stream::abort(aclError reason, Deadline deadline) {
  return await_abort(queue_.skip_pending(reason, queue_.life()), deadline);
}

Status Stream::await_abort(Ticket newest, Deadline deadline) {
  if (await(newest, deadline)) return {};
  SOFTNPU_RETURN_IF_ERROR(TaskQueue::check_not_exiting());
  return {ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
          text("the task that runs on stream ", id(), " did not end in the time given; pending ones are dropped")};
}

std::string Stream::place() const { return text("device ", device().number(), ", stream ", id()); }

int32_t Stream::device_number() const { return device().number(); }

rtExceptionInfo Stream::task_failed(const SoftnpuTaskKind& kind, Ticket ticket, const Status& status) {
  SOFTNPU_LOG(kError, status.message(), " [", kind.name, "]");
  if (stop_on_failure.load(std::memory_order_relaxed)) {
    Context::stop({context(), context_generation_.load(std::memory_order_relaxed)}, status);
  }
  return {.task_id = uint32_t(ticket),
          .stream_id = uint32_t(id()),
          .thread_id = 0,
          .device_id = uint32_t(device().number()),
          .error_code = uint32_t(status.code())};
}

void Stream::running(bool begins) { ledger().running(device().host_number(), begins); }

StreamPool& stream_pool() {
  static auto* pool = new StreamPool;
  return *pool;
}

const SoftnpuTaskKind* any_running_kind() {
  const SoftnpuTaskKind* kind = nullptr;
  stream_pool().for_each_slot([&](Stream& stream) {
    const SoftnpuTaskKind* running = stream.queue().running_kind();
    if (running != nullptr) kind = running;
  });
  return kind;
}

}  // namespace softnpu
