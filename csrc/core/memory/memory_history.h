// Who allocated device memory, and what happened to it: the stacks of live blocks and a trace of events, kept while asked for.
//
//   record_memory_history({.keeps_trace = true, .stacks = Stacks::kAlways, .most_events = 100000});
//   ...
//   record_memory_history(std::nullopt);      // off; what was kept is gone
//
// It is off at first and then costs nothing but the question watches_allocations(). DeviceCache has one MemoryHistory, under its
// lock; the stack is taken before that lock, by Caller, because it needs Python's.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/macros/Export.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/memory/free_blocks.h"

namespace torch_npu {

// When a stack is taken; each includes those before.
enum class Stacks : uint8_t { kNever, kOfLiveBlocks, kOfAllocations, kAlways };

struct HistoryOptions {
  bool keeps_trace = true;
  Stacks stacks = Stacks::kAlways;
  bool has_cpp_frames = false;
  size_t most_events = SIZE_MAX;  // per device; older ones are forgotten
};

C10_EXPORT void record_memory_history(std::optional<HistoryOptions> options);

namespace detail {

// How many reasons there are to look closer at allocations: the history, and threads that use a pool.
extern constinit std::atomic<uint32_t> allocation_watchers;

}  // namespace detail

inline bool watches_allocations() { return detail::allocation_watchers.load(std::memory_order_relaxed) != 0; }

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
  uintptr_t address;  // of kOutOfMemory: bytes free on the device
  size_t size;
  c10::StreamId stream;
  c10::MempoolId_t pool;
  int64_t time_us;
  StackTrace stack;
};

class MemoryHistory {
 public:
  // The stack of what this thread does while it lives.
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

  // Nothing, while the history is off.
  void record(MemoryEvent::Action action, const Block& block);
  // Of no block: kSnapshot and kOutOfMemory.
  void record(MemoryEvent::Action action, uintptr_t address, size_t size, c10::StreamId stream, c10::MempoolId_t pool);
  void clear();

  const std::deque<MemoryEvent>& events() const { return events_; }
  // Null if it is not known.
  StackTrace stack_of(const Block& block) const;

 private:
  void add(MemoryEvent event);

  std::deque<MemoryEvent> events_;
  std::unordered_map<const Block*, StackTrace> stacks_;  // of live blocks
};

}  // namespace torch_npu
