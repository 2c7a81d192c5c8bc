// Captures: from begin() to end() the tasks of a stream are recorded for a graph (graph.h) and do not run.
//
//   captures().begin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
//   ...                                       // tasks, events and waits as usual
//   Result<Ref<GraphSlot>> graph = captures().end(stream);
//
// A stream that waits for an event of a captured stream joins the capture. At the end the first stream must have waited for all
// streams that joined. A call that would wait for captured work, or query it, is refused, since that work does not run. Such a
// call invalidates the capture: later tasks of its streams are refused, and end() fails. So does a call that uses the device
// without a stream while a capture is active, depending on the mode of the capture.
//
// Between update_begin() and update_end() the tasks of a stream are recorded as new arguments for a task group of a graph.
//
// A stream calls captures() only if its `is_recorded` is set, other code only if is_active(). So captures cost nothing otherwise.
// Thread-safe: one lock, under which only locks of objects that no other thread can reach are taken.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl_mdl.h"
#include "runtime/stream/graph.h"

namespace softnpu {

// A point in the order of a capture, for events. Stays valid after the end of the capture.
struct CaptureMark {
  uint64_t capture;
  std::vector<uint32_t> newest;  // by lane: 1 plus the number of its newest task; 0 for none
};

// A set of tasks of a graph whose arguments can be replaced (aclrtTaskGrp).
class TaskGroup : public Slot {
 public:
  Ref<GraphSlot> graph;
  std::vector<uint32_t> tasks;
};

using TaskGroupPool = SlotPool<TaskGroup, HandleKind::kTaskGroup>;
TaskGroupPool& task_group_pool();

class Captures {
 public:
  Status begin(Stream& stream, aclmdlRICaptureMode mode);
  // Returns the graph. The capture ends even if this fails, except in two cases: the capture began with another stream, or on
  // another thread and its mode is not relaxed.
  Result<Ref<GraphSlot>> end(Stream& stream);
  // The status and the graph of the capture that the stream is part of, if any.
  aclmdlRICaptureStatus status(Stream& stream, aclmdlRI* graph);

  // Records a task of a stream whose is_recorded is set. Nothing if the capture has ended since.
  std::optional<Status> record(Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  // The present point of the stream; null if the capture has ended.
  std::shared_ptr<const CaptureMark> mark(Stream& stream);
  // Orders the stream's later tasks after `mark`. The stream joins the capture if it was not part of it.
  Status wait(Stream& stream, const CaptureMark& mark);
  // Refuses a wait of a captured stream for something outside the capture.
  Status refuse_outside(Stream& stream);

  // Refuse a wait for captured work or a query of it, and invalidate the capture. `what` is the begin of the message.
  Status refuse_wait(Stream& stream, const char* what);
  Status refuse_event(const CaptureMark& mark);
  // Fails, and invalidates the captures that forbid it, if the calling thread must not use the device without a stream now.
  Status check_unsafe(const char* what);

  static bool is_active() { return active_.load(std::memory_order_relaxed) != 0; }
  // Sets the mode of the calling thread for check_unsafe(). `mode` receives the previous one.
  static Status exchange_mode(aclmdlRICaptureMode* mode);

  Status group_begin(Stream& stream);
  Result<Ref<TaskGroup>> group_end(Stream& stream);
  Status update_begin(Stream& stream, TaskGroup& group);
  Status update_end(Stream& stream);
  // Destroys the task groups of a graph that is being destroyed.
  void drop_groups(const GraphSlot& graph);

  // Calls `alter` with the tasks that were recorded on the stream, newest first, until it returns true. Returns whether it did.
  bool alter(Stream& stream, const std::function<bool(RecordedTask&)>& alter);

  // Removes a stream that is being closed from its capture or update.
  void forget(Stream& stream);

 private:
  struct Lane {
    Stream* stream;
    std::vector<uint32_t> newest;  // as in CaptureMark; the own lane included
    std::vector<uint32_t> after;   // numbers of tasks that its next task waits for
    std::optional<std::vector<uint32_t>> group;
  };
  struct Capture {
    uint64_t number;
    aclmdlRICaptureMode mode;
    std::thread::id thread;
    Ref<GraphSlot> slot;
    Graph::Ref graph;
    std::vector<Lane> lanes;
    std::string spoiled;  // the reason, if the capture is invalid
  };
  struct Update {
    Ref<GraphSlot> graph;
    std::vector<uint32_t> numbers;
    std::vector<std::unique_ptr<RecordedTask>> tasks;
  };

  // Call these with mutex_ held.
  Capture* find(const Stream& stream, uint32_t* lane = nullptr);
  Capture* find(uint64_t number);
  static Status check_live(const Stream& stream);
  static Lane& join(Capture& capture, Stream& stream);
  static Status spoil(Capture& capture, aclError code, std::string why);
  static Status spoiled(const Capture& capture);
  // Ends the capture and resets is_recorded of its streams.
  std::unique_ptr<Capture> finish(Capture& capture);
  void discard(const Ref<GraphSlot>& slot);

  static inline constinit std::atomic<int> active_{0};
  std::mutex mutex_;  // guards the following
  std::vector<std::unique_ptr<Capture>> captures_;
  std::map<Stream*, Update> updates_;
  uint64_t count_ = 0;
};

Captures& captures();

}  // namespace softnpu
