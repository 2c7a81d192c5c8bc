// The history of device memory: the stacks that allocated the live blocks, and a trace of events.
//
//   record_memory_history({.keeps_trace = true, .stacks = Stacks::kAlways, .most_events = 100000});
//   ...
//   record_memory_history(std::nullopt);      // off
//
// It is off at first and then costs one load per allocation (core/device/allocation_watchers.h). Each DeviceCache owns a
// MemoryHistory, which its lock protects. The caller takes the stack before that lock, because this needs Python's lock. The free
// functions are thread-safe.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/macros/Export.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/device/allocation_watchers.h"
#include "core/memory/block.h"

namespace torch_npu {

// The events for which a stack is taken; each value includes the previous ones.
enum class Stacks : uint8_t { kNever, kOfLiveBlocks, kOfAllocations, kAlways };

struct HistoryOptions {
  bool keeps_trace = true;
  Stacks stacks = Stacks::kAlways;
  bool has_cpp_frames = false;
  size_t most_events = SIZE_MAX;  // per device; older events are dropped
};

C10_EXPORT void record_memory_history(std::optional<HistoryOptions> options);

using StackTrace = std::shared_ptr<c10::GatheredContext>;  // a torch::CapturedTraceback

struct MemoryEvent {
  enum Action : uint8_t {
    kAlloc,
    kFreeRequested,
    kFreeCompleted,
    kSegmentAlloc,
    kSegmentFree,
    kSegmentMap,
    kSegmentUnmap,
    kSnapshot,
    kOutOfMemory
  };

  Action action;
  uintptr_t address;  // for kOutOfMemory: free bytes of the device
  size_t size;
  c10::StreamId stream;
  c10::MempoolId_t pool;
  int64_t time_us;
  StackTrace stack;
};

class MemoryHistory {
 public:
  // While it lives, its stack is the stack of all events of this thread.
  class Caller {
   public:
    explicit Caller(MemoryEvent::Action action);
    ~Caller();
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

   private:
    StackTrace stack_;
    const StackTrace* previous_;
  };

  // Does nothing while the history is off.
  void record(MemoryEvent::Action action, const Block& block);
  // For events without a block: kSnapshot and kOutOfMemory.
  void record(MemoryEvent::Action action, uintptr_t address, size_t size, c10::StreamId stream, c10::MempoolId_t pool);
  void clear();

  const std::deque<MemoryEvent>& events() const { return events_; }
  // The stack that allocated the block; null if it is not known.
  StackTrace stack_of(const Block& block) const;

 private:
  void add(MemoryEvent event);

  std::deque<MemoryEvent> events_;
  std::unordered_map<const Block*, StackTrace> stacks_;  // of live blocks
};

}  // namespace torch_npu
