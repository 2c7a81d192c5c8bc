#include "core/memory/memory_history.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>
#include <mutex>

#include "core/memory/block_pools.h"

namespace torch_npu {

namespace {

// Null: off. The objects are never deleted, because other threads may read them.
constinit std::atomic<const HistoryOptions*> current_options{nullptr};

thread_local const StackTrace* current_stack = nullptr;

bool is_allocation(MemoryEvent::Action action) {
  return action == MemoryEvent::kAlloc || action == MemoryEvent::kSegmentAlloc || action == MemoryEvent::kSegmentMap ||
         action == MemoryEvent::kOutOfMemory;
}

int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

void record_memory_history(std::optional<HistoryOptions> options) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const HistoryOptions* next = options ? new HistoryOptions(*options) : nullptr;
  const bool was_on = current_options.exchange(next, std::memory_order_acq_rel) != nullptr;
  if (options && !was_on) ++detail::allocation_watchers;
  if (!options && was_on) --detail::allocation_watchers;
}

MemoryHistory::Caller::Caller(MemoryEvent::Action action) : previous_(current_stack) {
  current_stack = &stack_;
  const HistoryOptions* options = current_options.load(std::memory_order_acquire);
  if (options == nullptr) return;
  if (options->stacks < (is_allocation(action) ? Stacks::kOfLiveBlocks : Stacks::kAlways)) return;
  try {
    stack_ = torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, options->has_cpp_frames);
  } catch (const std::exception&) {  // a free cannot throw; the event has no stack
  }
}

MemoryHistory::Caller::~Caller() { current_stack = previous_; }

void MemoryHistory::record(MemoryEvent::Action action, const Block& block) {
  if (current_options.load(std::memory_order_acquire) == nullptr) return;
  const StackTrace stack = current_stack != nullptr ? *current_stack : nullptr;
  if (action == MemoryEvent::kAlloc && stack != nullptr) stacks_[&block] = stack;
  const bool is_segment = action >= MemoryEvent::kSegmentAlloc && action <= MemoryEvent::kSegmentUnmap;
  const bool is_free = action == MemoryEvent::kFreeRequested || action == MemoryEvent::kFreeCompleted;
  add({action, reinterpret_cast<uintptr_t>(block.address), is_segment ? block.size : block.requested, block.cache->stream.id(),
       block.cache->pool.id, 0, is_free && stack == nullptr ? stack_of(block) : stack});
  if (action == MemoryEvent::kFreeCompleted) stacks_.erase(&block);
}

void MemoryHistory::record(MemoryEvent::Action action, uintptr_t address, size_t size, c10::StreamId stream,
                           c10::MempoolId_t pool) {
  add({action, address, size, stream, pool, 0, current_stack != nullptr ? *current_stack : nullptr});
}

void MemoryHistory::add(MemoryEvent event) {
  const HistoryOptions* options = current_options.load(std::memory_order_acquire);
  if (options == nullptr || !options->keeps_trace) return;
  event.time_us = now_us();
  if (options->stacks < Stacks::kOfAllocations) event.stack = nullptr;
  events_.push_back(std::move(event));
  while (events_.size() > options->most_events) events_.pop_front();
}

void MemoryHistory::clear() {
  events_.clear();
  stacks_.clear();
}

StackTrace MemoryHistory::stack_of(const Block& block) const {
  const auto found = stacks_.find(&block);
  return found == stacks_.end() ? nullptr : found->second;
}

}  // namespace torch_npu
