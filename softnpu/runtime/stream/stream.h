// A stream: tasks of one context that run in the order of their submission.
//
//   SOFTNPU_RETURN_IF_ERROR(stream.submit(kind, &payload, sizeof payload, cost));
//   SOFTNPU_RETURN_IF_ERROR(stream.synchronize(Deadline::never()));   // returns the failure of a task, once
//
// task_queue.h runs the tasks. This class adds the context, attributes and the handling of failures and captures.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/base/handle.h"
#include "runtime/engine/engine.h"
#include "runtime/stream/stream_device.h"
#include "runtime/stream/task_queue.h"

namespace softnpu {

class Context;

constexpr uint32_t kHighestPriority = 0;
constexpr uint32_t kLowestPriority = 7;

// A stream with its newest task at some time.
struct StreamMark {
  Ref<class Stream> stream;
  Ticket life = 0;  // TaskQueue::life()
  Ticket newest = 0;
};

// Thread-safe. Its context owns it.
class Stream : public Slot, private TaskQueue::Observer {
 public:
  Status open(const Ref<Context>& context, uint32_t priority);
  // Skips pending tasks. The slot is given back when the task that runs now is done.
  void close();

  Context& context() const { return *context_.load(std::memory_order_relaxed); }
  StreamDevice& device() const { return *device_.load(std::memory_order_relaxed); }
  TaskQueue& queue() { return queue_; }
  EngineQueue* engine_queue() const { return engine_queue_.load(std::memory_order_relaxed); }

  // Unique among the existing streams of the process.
  int32_t id() const { return int32_t(slot()); }
  uint32_t priority() const { return priority_.load(std::memory_order_relaxed); }

  // Fails if a failure stopped the context (stop_on_failure), or the stream is being destroyed.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  // The same; `ticket` receives the ticket of the task, unless the task was recorded for a graph.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, Ticket& ticket);
  Status submit_wait(QueueMark mark, std::chrono::seconds timeout, WaitOver over = {});
  // Makes later tasks wait for `mark`. If a task before the mark failed, this stream fails, too.
  Status wait_for(QueueMark mark);

  // Waits until all submitted tasks are done, and returns the failure of one, if any. ACL_ERROR_RT_STREAM_SYNC_TIMEOUT if
  // `deadline` passes first. ACL_ERROR_RT_STREAM_ABORT or ACL_ERROR_RT_DEVICE_TASK_ABORT if the tasks were skipped by an abort or
  // by the exit of the process.
  Status synchronize(Deadline deadline);
  // Waits only for the tasks up to `ticket`.
  Status synchronize(Ticket ticket, Deadline deadline);
  // Whether all submitted tasks are done; does not wait.
  bool query();
  // Waits for `ticket`. False if `deadline` passes first. For the race check the host is ordered after `ticket` then.
  bool await(Ticket ticket, Deadline deadline);
  // The two parts of synchronize(), for callers that wait for several streams before they take failures.
  Status wait(Ticket ticket, Deadline deadline);
  Status take_failure(Ticket ticket) { return queue_.take_failure(ticket); }

  // Skips pending tasks and waits for the running one. Threads that wait for a skipped task get `reason`.
  Status abort(aclError reason, Deadline deadline);
  // The second part of abort(): waits for the tasks up to `newest`.
  Status await_abort(Ticket newest, Deadline deadline);

  // Tasks are recorded and do not run (capture.h).
  std::atomic<bool> is_recorded{false};
  // The stream belongs to a graph, which reports the failures of its tasks.
  std::atomic<bool> is_lane{false};
  // A failing task stops the whole context, not only this stream.
  std::atomic<bool> stop_on_failure{false};
  std::atomic<uint32_t> overflow_switch{0};
  std::atomic<uint32_t> custom_tag{0};
  std::atomic<uint32_t> cache_op_info{0};
  CoreLimits core_limits{};
  // Copies the limits of the device.
  void reset_core_limits();

 private:
  std::string place() const override;
  int32_t device_number() const override;
  rtExceptionInfo task_failed(const SoftnpuTaskKind& kind, Ticket ticket, const Status& status) override;
  void running(bool begins) override;

  // Atomic, because a call that races with the destruction may read them while the slot is used again.
  std::atomic<Context*> context_{nullptr};
  std::atomic<uint32_t> context_generation_{0};
  std::atomic<StreamDevice*> device_{nullptr};  // a copy, because the last task may outlive the context
  std::atomic<uint32_t> priority_{0};
  std::atomic<EngineQueue*> engine_queue_{nullptr};  // owned by the stream
  TaskQueue queue_;
};

using StreamPool = SlotPool<Stream, HandleKind::kStream>;
StreamPool& stream_pool();

// The kind of a task that any stream runs now; null if none does. A guess, for fault reports; may be called in a signal handler
// after the first call has returned.
const SoftnpuTaskKind* any_running_kind();

}  // namespace softnpu
