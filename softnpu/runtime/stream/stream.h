// A stream: work of one context that runs in the order it was given.
//
//   SOFTNPU_RETURN_IF_ERROR(stream.submit(kind, &payload, sizeof payload, cost));
//   SOFTNPU_RETURN_IF_ERROR(stream.synchronize(Deadline::never()));   // the failure of a task is returned here, once
//
// How tasks run is task_queue.h's business; this class gives the queue an owner, attributes and a policy for failures.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/base/handle.h"
#include "runtime/engine/engine.h"
#include "runtime/stream/task_queue.h"

namespace softnpu {

class Context;
class Device;

constexpr uint32_t kHighestPriority = 0;
constexpr uint32_t kLowestPriority = 7;

// How many cores of each kind tasks may use: kept and reported; the software device has its own idea of cores.
using CoreLimits = std::array<std::atomic<uint32_t>, 2>;

// A stream as somebody found it: its life and, then, its newest task.
struct StreamMark {
  Ref<class Stream> stream;
  Ticket life = 0;  // of its queue
  Ticket newest = 0;
};

// Thread-safe. Owned by its context, which destroys it at the latest when it is destroyed itself.
class Stream : public Slot, private TaskQueue::Observer {
 public:
  // `context` is the life of it that the stream belongs to.
  Status open(const Ref<Context>& context, uint32_t priority);
  // Drops what is pending; the slot is given back when the task that runs now is done.
  void close();

  Context& context() const { return *context_.load(std::memory_order_relaxed); }
  Device& device() const { return *device_.load(std::memory_order_relaxed); }
  TaskQueue& queue() { return queue_; }
  EngineQueue* engine_queue() const { return engine_queue_.load(std::memory_order_relaxed); }

  // Unique among the streams of the process that exist.
  int32_t id() const { return int32_t(slot()); }
  uint32_t priority() const { return priority_.load(std::memory_order_relaxed); }

  // Fails if the context was stopped by a failure (stop_on_failure), or the stream is being destroyed.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  // The same, and says which ticket the task got; nothing if it was recorded for a graph.
  Status submit(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost, Ticket& ticket);
  Status submit_wait(QueueMark mark, std::chrono::seconds timeout, WaitOver over = {});
  // Later tasks start when `mark` is reached, and fail with what failed before it.
  Status wait_for(QueueMark mark);

  // Returns when everything submitted before is done. ACL_ERROR_RT_STREAM_SYNC_TIMEOUT when `deadline` passes first.
  // ACL_ERROR_RT_STREAM_ABORT or ACL_ERROR_RT_DEVICE_TASK_ABORT if the work was thrown away meanwhile, as it is when the process
  // exits.
  Status synchronize(Deadline deadline);
  // The same up to a task of this stream; where that is done already, `deadline` does not matter.
  Status synchronize(Ticket ticket, Deadline deadline);
  // Whether everything submitted before is done; does not wait.
  bool query();
  // Whether `ticket` was reached before `deadline`. What is over then, the host knows (races.h).
  bool await(Ticket ticket, Deadline deadline);
  // The two halves of synchronize(): for those who wait for several streams before they ask any of them how it went.
  Status wait(Ticket ticket, Deadline deadline);
  Status take_failure(Ticket ticket) { return queue_.take_failure(ticket); }

  // Throws away what is pending and waits for the running task; whoever synchronizes now gets `reason`.
  Status abort(aclError reason, Deadline deadline);
  // The second half of abort(): waits for what ran when `newest` was the newest task.
  Status await_abort(Ticket newest, Deadline deadline);

  // Its tasks do not run but are recorded (capture.h).
  std::atomic<bool> is_recorded{false};
  // Belongs to a graph, whose tasks report their failures elsewhere.
  std::atomic<bool> is_lane{false};
  // A failing task stops the whole context instead of this stream's pending work.
  std::atomic<bool> stop_on_failure{false};
  std::atomic<uint32_t> overflow_switch{0};
  std::atomic<uint32_t> custom_tag{0};
  std::atomic<uint32_t> cache_op_info{0};
  CoreLimits core_limits{};
  // Back to those of the device.
  void reset_core_limits();

 private:
  std::string place() const override;
  rtExceptionInfo task_failed(const SoftnpuTaskKind& kind, Ticket ticket, const Status& status) override;
  void running(bool begins) override;

  // Atomic: a call that races with destroy() may read them while the next life begins.
  std::atomic<Context*> context_{nullptr};
  std::atomic<uint32_t> context_generation_{0};
  std::atomic<Device*> device_{nullptr};  // the last task may outlive the context
  std::atomic<uint32_t> priority_{0};
  std::atomic<EngineQueue*> engine_queue_{nullptr};  // owned
  TaskQueue queue_;
};

using StreamPool = SlotPool<Stream, HandleKind::kStream>;
StreamPool& stream_pool();

}  // namespace softnpu
