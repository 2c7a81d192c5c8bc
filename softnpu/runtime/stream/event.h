// An event marks a point in a stream's order.
//
//   event.record(copy_stream);        // "when everything submitted to copy_stream so far is done"
//   event.wait(compute_stream);       // compute_stream's later tasks start after that point
//
// Recording again moves the mark. Whoever already waits keeps the mark that was newest when it called wait(): that is what
// AscendCL and CUDA promise. A mark is a queue and a ticket, so recording and waiting allocate nothing, and an event may be
// destroyed at any time: tasks that wait know the mark, not the event.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/handle.h"
#include "runtime/checks/races.h"
#include "runtime/stream/ipc_event.h"
#include "runtime/stream/task_queue.h"

namespace softnpu {

class Stream;
struct CaptureMark;

// Thread-safe. The client owns it through its handle.
class Event : public Slot {
 public:
  // Which of the two families it belongs to: aclrtCreateEventExWithFlag makes kExtended, the older functions kPlain. Plain events
  // can be reset and know whether those who wait for them are through.
  enum class Family { kPlain, kExtended };

  void open(Family family, uint32_t flags);
  void close();
  // Gives the event a part that other processes can open. Only for flag ACL_EVENT_IPC.
  void attach(IpcEvent::Ref shared);

  Family family() const { return family_.load(std::memory_order_relaxed); }
  bool has_timing() const { return has_flag(ACL_EVENT_TIME_LINE); }
  // An event that captured streams record, wait for and reset when the graph is executed, and not when it is captured.
  bool is_external() const { return has_flag(ACL_EVENT_EXTERNAL); }
  bool can_reset() const { return family() == Family::kPlain && has_flag(ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL); }
  // Null without such a part; with it, a reference that outlives the event.
  IpcEvent::Ref shared() const;

  // Marks the end of what `stream` holds now. Never blocks.
  Status record(Stream& stream);

  // Holds `stream`'s later tasks until the newest mark is reached. Never blocks the caller. An event that was never recorded
  // counts as reached. Where a task before the mark failed, and nobody was told yet, `stream` fails with it.
  Status wait(Stream& stream, std::chrono::seconds timeout);

  // Forgets the mark: the event is as if never recorded. Streams that wait already keep waiting for the old mark.
  void reset();
  // The same in the order of a captured stream, for an external event; otherwise at once.
  Status reset(Stream& stream);

  // Recorded on a captured stream: neither reached nor pending. Refuses, and spoils the capture, if so.
  Status check_not_captured() const;

  // Whether the newest mark is reached; true if never recorded.
  bool reached() const;
  // ACL_ERROR_RT_IPC_ERROR if another process made the newest mark and ended before it was reached.
  Status check_recorder() const;
  // Whether every stream that was told to wait is past its wait. Plain events only.
  bool waits_are_over() const { return pending_waits_.load(std::memory_order_acquire) <= 0; }

  // Blocks until the newest mark is reached. ACL_ERROR_RT_EVENT_SYNC_TIMEOUT when `deadline` passes first; the mark stays
  // pending. The error of a task that failed before the mark is returned here, once.
  Status synchronize(Deadline deadline);

  // When the newest mark was reached, in nanoseconds of an arbitrary but common clock. ACL_ERROR_RT_EVENT_NOT_COMPLETE while it
  // is pending, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID if it was never recorded or has no timing.
  Result<uint64_t> timestamp() const;

 private:
  struct Stamp;
  static const SoftnpuTaskKind kStampKind;
  // The newest mark and, where races are checked, what is over when it is reached.
  QueueMark mark(RaceClock* clock) const;
  void set_mark(Stream& stream, Ticket ticket);
  bool has_flag(uint32_t flags) const { return flags_.load(std::memory_order_relaxed) & flags; }
  static Status record_shared(IpcEvent::Ref shared, Stream& stream);
  static Status wait_shared(IpcEvent::Ref shared, Stream& stream);
  Status record_captured(Stream& stream);
  Status wait_captured(Stream& stream, const std::shared_ptr<const CaptureMark>& mark);
  Status submit_external(const SoftnpuTaskKind& kind, Stream& stream);
  std::shared_ptr<const CaptureMark> capture_mark() const;

  struct External;
  static const SoftnpuTaskKind kExternalRecordKind;
  static const SoftnpuTaskKind kExternalWaitKind;
  static const SoftnpuTaskKind kExternalResetKind;

  // Atomic: a call that races with aclrtDestroyEvent may read them while the next life begins.
  std::atomic<Family> family_{Family::kExtended};
  std::atomic<uint32_t> flags_{0};
  std::atomic<int32_t> pending_waits_{0};
  std::atomic<bool> is_captured_{false};  // capture_mark_ is there

  mutable Lock lock_;
  IpcEvent::Ref shared_;  // guarded by lock_, as is all that follows
  QueueMark mark_{};      // the newest
  RaceClock clock_;       // what is over when the mark is reached; only while races are checked
  uint64_t records_ = 0;  // counts records, over all lives of this slot
  uint64_t stamped_ = 0;  // the record that `stamp_` belongs to
  uint64_t stamp_ = 0;
  uint64_t awaited_ = 0;                             // external: the newest record that a replayed wait has seen
  std::shared_ptr<const CaptureMark> capture_mark_;  // where it was recorded on a captured stream
};

using EventPool = SlotPool<Event, HandleKind::kEvent>;
EventPool& event_pool();

}  // namespace softnpu
