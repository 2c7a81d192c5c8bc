#include "runtime/stream/event.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "runtime/base/message.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/stream.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

uint64_t now_in_nanoseconds() { return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()); }

struct SharedRecord {
  IpcEvent* event;
  uint64_t record;
};

void drop_shared(void* payload) { IpcEvent::Release()(static_cast<SharedRecord*>(payload)->event); }

aclError finish_shared_record(void* payload, char*) {
  const auto& task = *static_cast<SharedRecord*>(payload);
  task.event->finish_record(task.record);
  return ACL_SUCCESS;
}

// Also true if the recording process has ended: then the wait fails.
bool shared_wait_is_over(const void* payload) {
  const auto& task = *static_cast<const SharedRecord*>(payload);
  return task.event->reached(task.record) || task.event->recorder_ended(task.record);
}

aclError finish_shared_wait(void* payload, char* message) {
  const auto& task = *static_cast<SharedRecord*>(payload);
  if (task.event->reached(task.record)) return ACL_SUCCESS;
  const Status loss = task.event->loss_of(task.record);
  write_message(message, loss.message());
  return loss.code();
}

constexpr SoftnpuTaskKind kSharedRecordKind = {.name = "aclrtRecordEvent",
                                               .run = finish_shared_record,
                                               .release = drop_shared,
                                               .ready = nullptr,
                                               .flags = SOFTNPU_TASK_ALWAYS,
                                               .visit = nullptr};
constexpr SoftnpuTaskKind kSharedWaitKind = {.name = "aclrtStreamWaitEvent",
                                             .run = finish_shared_wait,
                                             .release = drop_shared,
                                             .ready = shared_wait_is_over,
                                             .flags = SOFTNPU_TASK_OUTSIDE,
                                             .visit = nullptr};

}  // namespace

struct Event::Stamp {
  Event* event;
  uint64_t record;
};

// Runs after failed tasks, too, since the mark is reached then as well. Does nothing if the event was recorded or opened again.
const SoftnpuTaskKind Event::kStampKind = {.name = "aclrtRecordEvent",
                                           .run = [](void* payload, char*) -> aclError {
                                             const auto [event, record] = *static_cast<Stamp*>(payload);
                                             std::lock_guard guard(event->lock_);
                                             if (event->records_ != record) return ACL_SUCCESS;
                                             event->stamp_ = now_in_nanoseconds();
                                             event->stamped_ = record;
                                             return ACL_SUCCESS;
                                           },
                                           .release = nullptr,
                                           .ready = nullptr,
                                           .flags = SOFTNPU_TASK_ALWAYS,
                                           .visit = nullptr};

// The payload of the tasks of an external event in a graph.
struct Event::External {
  Ref<Event> event;
  TaskQueue* queue;  // any queue; ticket 0 of it is always reached

  static aclError check(const External& task, char* message) {
    if (task.event.is_live()) return ACL_SUCCESS;
    write_message(message, "the external event was destroyed before the graph");
    return ACL_ERROR_RT_INVALID_HANDLE;
  }
};

const SoftnpuTaskKind Event::kExternalRecordKind = {.name = "aclrtRecordEvent",
                                                    .run = [](void* payload, char* message) -> aclError {
                                                      const auto& task = *static_cast<External*>(payload);
                                                      if (aclError code = External::check(task, message)) return code;
                                                      std::lock_guard guard(task.event->lock_);
                                                      ++task.event->records_;
                                                      task.event->mark_ = {task.queue, 0};  // ticket 0 is always reached
                                                      return ACL_SUCCESS;
                                                    },
                                                    .release = nullptr,
                                                    .ready = nullptr,
                                                    .flags = 0,
                                                    .visit = nullptr};

// An external event is pending until it is recorded after its last reset.
const SoftnpuTaskKind Event::kExternalWaitKind = {.name = "aclrtStreamWaitEvent",
                                                  .run = [](void* payload, char* message) -> aclError {
                                                    const auto& task = *static_cast<External*>(payload);
                                                    if (aclError code = External::check(task, message)) return code;
                                                    std::lock_guard guard(task.event->lock_);
                                                    task.event->awaited_ = task.event->records_;
                                                    return ACL_SUCCESS;
                                                  },
                                                  .release = nullptr,
                                                  .ready =
                                                      [](const void* payload) {
                                                        const Ref<Event>& event = static_cast<const External*>(payload)->event;
                                                        if (!event.is_live()) return true;
                                                        std::lock_guard guard(event->lock_);
                                                        const QueueMark& mark = event->mark_;
                                                        return mark.queue != nullptr && mark.queue->reached(mark.ticket);
                                                      },
                                                  .flags = SOFTNPU_TASK_OUTSIDE,
                                                  .visit = nullptr};

// Keeps a record that no wait has seen yet: it belongs to the next replay.
const SoftnpuTaskKind Event::kExternalResetKind = {.name = "aclrtResetEvent",
                                                   .run = [](void* payload, char* message) -> aclError {
                                                     const auto& task = *static_cast<External*>(payload);
                                                     if (aclError code = External::check(task, message)) return code;
                                                     std::lock_guard guard(task.event->lock_);
                                                     if (task.event->records_ <= task.event->awaited_) task.event->mark_ = {};
                                                     return ACL_SUCCESS;
                                                   },
                                                   .release = nullptr,
                                                   .ready = nullptr,
                                                   .flags = 0,
                                                   .visit = nullptr};

void Event::open(Family family, uint32_t flags) {
  std::lock_guard guard(lock_);
  family_.store(family, std::memory_order_relaxed);
  clock_ = {};
  flags_.store(flags, std::memory_order_relaxed);
  pending_waits_.store(0, std::memory_order_relaxed);
  mark_ = {};
  ++records_;
  awaited_ = records_;
}

void Event::close() {
  std::lock_guard guard(lock_);
  shared_.reset();
  is_captured_.store(false, std::memory_order_relaxed);
  capture_mark_.reset();
  mark_ = {};
  clock_ = {};
  ++records_;
}

// Call it with lock_ held.
void Event::set_mark(Stream& stream, Ticket ticket) {
  if (is_captured_.load(std::memory_order_relaxed)) [[unlikely]] {
    is_captured_.store(false, std::memory_order_relaxed);
    capture_mark_.reset();
  }
  mark_ = {&stream.queue(), ticket};
  if (races_are_checked()) clock_ = races().clock_at(stream.queue().number(), mark_.ticket);
}

void Event::attach(IpcEvent::Ref shared) {
  std::lock_guard guard(lock_);
  shared_ = std::move(shared);
}

IpcEvent::Ref Event::shared() const {
  std::lock_guard guard(lock_);
  return shared_ == nullptr ? nullptr : shared_->share();
}

std::shared_ptr<const CaptureMark> Event::capture_mark() const {
  if (!is_captured_.load(std::memory_order_relaxed)) [[likely]]
    return nullptr;
  std::lock_guard guard(lock_);
  return capture_mark_;
}

Status Event::check_not_captured() const {
  const std::shared_ptr<const CaptureMark> mark = capture_mark();
  return mark == nullptr ? Status() : captures().refuse_event(*mark);
}

Status Event::submit_external(const SoftnpuTaskKind& kind, Stream& stream) {
  const External task{Ref<Event>(*this), &stream.queue()};
  return stream.submit(kind, &task, sizeof task, 0);
}

Status Event::record_captured(Stream& stream) {
  if (is_external()) return submit_external(kExternalRecordKind, stream);
  if (shared() != nullptr) return captures().refuse_outside(stream);
  std::shared_ptr<const CaptureMark> mark = captures().mark(stream);
  if (mark == nullptr) return {ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the capture of the stream ended meanwhile"};
  std::lock_guard guard(lock_);
  ++records_;
  mark_ = {};
  capture_mark_ = std::move(mark);
  is_captured_.store(true, std::memory_order_relaxed);
  return {};
}

Status Event::wait_captured(Stream& stream, const std::shared_ptr<const CaptureMark>& mark) {
  if (is_external()) return submit_external(kExternalWaitKind, stream);
  if (mark != nullptr) return captures().wait(stream, *mark);
  RaceClock unused;
  if (shared() == nullptr && this->mark(&unused).queue == nullptr) return {};  // never recorded
  return captures().refuse_outside(stream);
}

Status Event::reset(Stream& stream) {
  if (is_external() && stream.is_recorded.load(std::memory_order_relaxed)) return submit_external(kExternalResetKind, stream);
  reset();
  return {};
}

Status Event::record(Stream& stream) {
  if (stream.is_recorded.load(std::memory_order_relaxed)) [[unlikely]]
    return record_captured(stream);
  if (IpcEvent::Ref shared = this->shared()) SOFTNPU_RETURN_IF_ERROR(record_shared(std::move(shared), stream));
  std::lock_guard guard(lock_);
  if (!has_timing()) {
    ++records_;
    set_mark(stream, stream.queue().submitted());
    return {};
  }
  const Stamp stamp{this, records_ + 1};
  ++records_;
  // On an idle stream the stamp task runs inside submit() and takes the lock.
  lock_.unlock();
  Ticket ticket = 0;
  Status status = stream.submit(kStampKind, &stamp, sizeof stamp, 0, ticket);
  lock_.lock();
  if (status.ok() && records_ == stamp.record) set_mark(stream, ticket);
  return status;
}

Status Event::record_shared(IpcEvent::Ref shared, Stream& stream) {
  const SharedRecord task{shared.get(), shared->begin_record()};
  SOFTNPU_RETURN_IF_ERROR(stream.submit(kSharedRecordKind, &task, sizeof task, 0));
  shared.release();
  return {};
}

QueueMark Event::mark(RaceClock* clock) const {
  std::lock_guard guard(lock_);
  if (races_are_checked()) {
    *clock = clock_;
    clock->is_unclear |= shared_ != nullptr;  // another process may have recorded the event
  }
  return mark_;
}

Status Event::wait(Stream& stream, std::chrono::seconds timeout) {
  const std::shared_ptr<const CaptureMark> captured = capture_mark();
  if (captured != nullptr || stream.is_recorded.load(std::memory_order_relaxed)) [[unlikely]]
    return wait_captured(stream, captured);
  RaceClock then;
  const QueueMark newest = mark(&then);
  // Before the early returns: a wait for a reached mark orders the streams, too.
  if (races_are_checked()) races().stream_learns(stream.queue().number(), then);
  if (IpcEvent::Ref shared = this->shared()) return wait_shared(std::move(shared), stream);
  if (newest.queue == nullptr || newest.queue == &stream.queue()) return {};
  if (newest.queue->reached(newest.ticket) && !newest.queue->has_failed()) return {};
  if (family() == Family::kExtended) return stream.submit_wait(newest, timeout);
  const auto over = [](void* object, uint32_t generation) {
    auto* event = static_cast<Event*>(object);
    if (event->generation() == generation) event->pending_waits_.fetch_sub(1, std::memory_order_acq_rel);
  };
  pending_waits_.fetch_add(1, std::memory_order_acq_rel);
  Status status = stream.submit_wait(newest, timeout, {over, this, generation()});
  if (!status.ok()) pending_waits_.fetch_sub(1, std::memory_order_acq_rel);
  return status;
}

Status Event::wait_shared(IpcEvent::Ref shared, Stream& stream) {
  const SharedRecord task{shared.get(), shared->newest_record()};
  if (shared->reached(task.record)) return {};
  SOFTNPU_RETURN_IF_ERROR(stream.submit(kSharedWaitKind, &task, sizeof task, 0));
  shared.release();
  return {};
}

void Event::reset() {
  std::lock_guard guard(lock_);
  is_captured_.store(false, std::memory_order_relaxed);
  capture_mark_.reset();
  mark_ = {};
  clock_ = {};
  ++records_;
}

Status Event::check_recorder() const {
  const IpcEvent::Ref shared = this->shared();
  if (shared == nullptr) return {};
  const uint64_t newest = shared->newest_record();
  return shared->reached(newest) ? Status() : shared->check_recorder(newest);
}

bool Event::reached() const {
  TaskQueue::poll();
  RaceClock then;
  const QueueMark newest = mark(&then);
  const IpcEvent::Ref shared = this->shared();
  const bool is_reached = shared != nullptr ? shared->reached(shared->newest_record())
                                            : newest.queue == nullptr || newest.queue->reached(newest.ticket);
  if (is_reached && races_are_checked()) races().host_learns(then);
  return is_reached;
}

Status Event::synchronize(Deadline deadline) {
  SOFTNPU_RETURN_IF_ERROR(check_not_captured());
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  const auto timed_out = [] {
    return Status(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event was not reached in the time given; it stays pending");
  };
  if (const IpcEvent::Ref shared = this->shared()) {
    const uint64_t record = shared->newest_record();
    auto pause = std::chrono::microseconds(20);  // polls with growing pauses, because another process may be the recorder
    while (!shared->reached(record)) {
      SOFTNPU_RETURN_IF_ERROR(TaskQueue::check_not_exiting());
      SOFTNPU_RETURN_IF_ERROR(shared->check_recorder(record));
      if (deadline.passed()) return timed_out();
      TaskQueue::poll();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(1000));
    }
  }
  RaceClock then;
  const QueueMark newest = mark(&then);
  if (newest.queue != nullptr && !newest.queue->wait(newest.ticket, deadline)) {
    SOFTNPU_RETURN_IF_ERROR(TaskQueue::check_not_exiting());
    return timed_out();
  }
  if (races_are_checked()) races().host_learns(then);
  if (newest.queue == nullptr) return {};
  return newest.queue->take_failure(newest.ticket);
}

Result<uint64_t> Event::timestamp() const {
  if (!has_timing()) {
    return Status(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event keeps no time; create it with the flag ACL_EVENT_TIME_LINE");
  }
  SOFTNPU_RETURN_IF_ERROR(check_not_captured());
  std::lock_guard guard(lock_);
  if (mark_.queue == nullptr) return Status(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event was never recorded");
  if (stamped_ != records_) return Status(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "the event is not reached yet; synchronize it first");
  return stamp_;
}

EventPool& event_pool() {
  static auto* pool = new EventPool;
  return *pool;
}

}  // namespace softnpu
