// Captures: from begin() to end() the tasks of a stream are recorded for a graph (graph.h) and do not run.
//
//   captures().begin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
//   ...                                       // tasks, events and waits, as ever
//   Result<Ref<GraphSlot>> graph = captures().end(stream);
//
// A stream that waits for an event of a captured stream is captured with it, from then on; at the end the first stream must have
// waited for all of them. Whatever would wait for captured work, or ask about it, is refused and spoils the capture, since that
// work does not run: its tasks are refused from then on, and end() fails. So do, as the mode says, calls that use the device past
// all streams while a capture is going on.
//
// The other way round a stream takes the arguments of tasks for a group of a graph, between update_begin() and update_end().
//
// A stream asks captures only if `is_recorded` says so, everyone else if `is_active()` does: nothing is paid otherwise.
// Thread-safe, by one lock, under which no other lock than those of objects that nobody else can reach is taken.
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

// A point of a capture, for events. It stays known after the end.
struct CaptureMark {
  uint64_t capture;
  std::vector<uint32_t> newest;  // by lane: one more than the number of its newest task; 0 for none
};

// A part of a graph whose tasks can be given other arguments: what an aclrtTaskGrp stands for.
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
  // The graph, ready to be executed. Whatever it returns, the capture that began with this stream is over then; only another
  // thread than the one that began it is refused and ends nothing, unless the mode is relaxed.
  Result<Ref<GraphSlot>> end(Stream& stream);
  // The capture that the stream takes part in, if any.
  aclmdlRICaptureStatus status(Stream& stream, aclmdlRI* graph);

  // The task of a stream that is recorded. Nothing if it is no longer.
  std::optional<Status> record(Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  // The point that the stream has reached; null if it is not captured any longer.
  std::shared_ptr<const CaptureMark> mark(Stream& stream);
  // The stream's next tasks come after that; it may be captured by this.
  Status wait(Stream& stream, const CaptureMark& mark);
  // A captured stream would wait for something outside of the capture.
  Status refuse_outside(Stream& stream);

  // Why captured work cannot be waited for or asked about. Spoils the capture.
  Status refuse_wait(Stream& stream, const char* what);
  Status refuse_event(const CaptureMark& mark);
  // Why the calling thread must not use the device past all streams now, if so. Spoils the captures that forbid it.
  Status check_unsafe(const char* what);

  static bool is_active() { return active_.load(std::memory_order_relaxed) != 0; }
  // Of the calling thread, for check_unsafe(); `mode` becomes what it was.
  static Status exchange_mode(aclmdlRICaptureMode* mode);

  Status group_begin(Stream& stream);
  Result<Ref<TaskGroup>> group_end(Stream& stream);
  Status update_begin(Stream& stream, TaskGroup& group);
  Status update_end(Stream& stream);
  // The graph is being destroyed: its groups go too.
  void drop_groups(const GraphSlot& graph);

  // Calls `alter` with the tasks that were recorded on the stream, the newest first, until it returns true: whether it did.
  bool alter(Stream& stream, const std::function<bool(RecordedTask&)>& alter);

  // The stream is being closed.
  void forget(Stream& stream);

 private:
  struct Lane {
    Stream* stream;
    std::vector<uint32_t> newest;  // as in CaptureMark; for its own number, its newest task
    std::vector<uint32_t> after;   // what its next task has to wait for
    std::optional<std::vector<uint32_t>> group;
  };
  struct Capture {
    uint64_t number;
    aclmdlRICaptureMode mode;
    std::thread::id thread;
    Ref<GraphSlot> slot;
    Graph::Ref graph;
    std::vector<Lane> lanes;
    std::string spoiled;  // why, if it is
  };
  struct Update {
    Ref<GraphSlot> graph;
    std::vector<uint32_t> numbers;
    std::vector<std::unique_ptr<RecordedTask>> tasks;
  };

  // With mutex_ held.
  Capture* find(const Stream& stream, uint32_t* lane = nullptr);
  Capture* find(uint64_t number);
  static Status check_live(const Stream& stream);
  static Lane& join(Capture& capture, Stream& stream);
  static Status spoil(Capture& capture, aclError code, std::string why);
  static Status spoiled(const Capture& capture);
  // Lets its streams go.
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
