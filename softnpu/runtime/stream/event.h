// An event marks a point in a stream's order.
//
//   event.record(copy_stream);                 // sets the mark: all tasks submitted to copy_stream so far
//   event.wait(compute_stream, timeout);       // later tasks of compute_stream start after the mark is reached
//
// A second record() replaces the mark. A stream that waits already waits for the mark that was newest at its wait(), as in
// AscendCL and CUDA. A mark is a queue and a ticket, so recording and waiting allocate nothing. An event may be destroyed at any
// time, because waiting tasks refer to the mark and not to the event.
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
  // aclrtCreateEventExWithFlag makes kExtended, the older functions make kPlain. Plain events can be reset, and tell whether the
  // streams that were told to wait are past their waits.
  enum class Family { kPlain, kExtended };

  void open(Family family, uint32_t flags);
  void close();
  // Adds the shared part, which other processes can open. Only for the flag ACL_EVENT_IPC.
  void attach(IpcEvent::Ref shared);

  Family family() const { return family_.load(std::memory_order_relaxed); }
  bool has_timing() const { return has_flag(ACL_EVENT_TIME_LINE); }
  // On a captured stream, record, wait and reset of an external event take effect when the graph is executed, not when it is
  // captured.
  bool is_external() const { return has_flag(ACL_EVENT_EXTERNAL); }
  bool can_reset() const { return family() == Family::kPlain && has_flag(ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL); }
  // A new reference to the shared part; null if there is none.
  IpcEvent::Ref shared() const;

  // Sets the mark to the newest task of `stream`. Never blocks.
  Status record(Stream& stream);

  // Makes the later tasks of `stream` wait until the newest mark is reached. Never blocks the caller. An event that was never
  // recorded counts as reached. If a task before the mark failed and that was not reported yet, `stream` fails with it.
  Status wait(Stream& stream, std::chrono::seconds timeout);

  // Removes the mark, as if the event was never recorded. Streams that wait already still wait for the old mark.
  void reset();
  // For an external event and a captured stream, in the order of the graph; otherwise at once.
  Status reset(Stream& stream);

  // Fails, and invalidates the capture, if the event was recorded on a captured stream: then it is neither reached nor pending.
  Status check_not_captured() const;

  // Whether the newest mark is reached; true if there is none.
  bool reached() const;
  // ACL_ERROR_RT_IPC_ERROR if another process recorded the event last and ended before the mark was reached.
  Status check_recorder() const;
  // Whether every stream that was told to wait is past its wait. Plain events only.
  bool waits_are_over() const { return pending_waits_.load(std::memory_order_acquire) <= 0; }

  // Blocks until the newest mark is reached. ACL_ERROR_RT_EVENT_SYNC_TIMEOUT if `deadline` passes first; the mark stays pending.
  // Returns the failure of a task before the mark, if it was not reported yet.
  Status synchronize(Deadline deadline);

  // The time at which the newest mark was reached, in nanoseconds of a clock that all events share.
  // ACL_ERROR_RT_EVENT_NOT_COMPLETE while it is pending, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID if it was never recorded or has no
  // timing.
  Result<uint64_t> timestamp() const;

 private:
  struct Stamp;
  static const SoftnpuTaskKind kStampKind;
  // The newest mark and, if races are checked, the clock at the mark.
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

  // Atomic, because a call that races with aclrtDestroyEvent may read them while the slot is used again.
  std::atomic<Family> family_{Family::kExtended};
  std::atomic<uint32_t> flags_{0};
  std::atomic<int32_t> pending_waits_{0};
  std::atomic<bool> is_captured_{false};  // whether capture_mark_ is set

  mutable Lock lock_;
  IpcEvent::Ref shared_;  // guarded by lock_, as are all following members
  QueueMark mark_{};      // the newest mark
  RaceClock clock_;       // clock at the mark; only if races are checked
  uint64_t records_ = 0;  // number of records since the process began, over all uses of this slot
  uint64_t stamped_ = 0;  // the record that `stamp_` belongs to
  uint64_t stamp_ = 0;
  uint64_t awaited_ = 0;                             // external events: the newest record that a replayed wait has seen
  std::shared_ptr<const CaptureMark> capture_mark_;  // the mark, if it was recorded on a captured stream
};

using EventPool = SlotPool<Event, HandleKind::kEvent>;
EventPool& event_pool();

}  // namespace softnpu
