// How DeviceCache keeps a freed block until the streams have passed that used it beside its own.
#include <utility>

#include "core/graph/graph.h"
#include "core/memory/device_cache.h"
#include "core/memory/device_cache_parts.h"
#include "core/stream/known_streams.h"

namespace torch_npu {
namespace {

// An event behind what the stream holds now; null if the device refuses, as it does at exit.
PooledEvent* mark_end(NPUStream stream) noexcept {
  try {
    NPUEvent event;
    event.record(stream);
    return event.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

// Streams must neither be marked nor asked while a graph is captured.
void DeviceCache::free_for_users(Block* block) {
  if (!captures_exist()) return record_users(block);
  deferred_.push_back(block);
  ++pending_count_;
  ++block->pending_events;
}

void DeviceCache::record_deferred() {
  for (Block* block : std::exchange(deferred_, {})) {
    --pending_count_;
    --block->pending_events;
    record_users(block);
  }
}

// Marks the end of what the other users of `block` hold now; it is free when all marks are reached. A stream that cannot be
// marked may still use the block: it is tried again later.
void DeviceCache::record_users(Block* block) {
  for (const NPUStream stream : std::exchange(block->users, {})) {
    if (PooledEvent* event = mark_end(stream)) {
      pending_[stream].push_back({event, block});
      ++pending_count_;
      ++block->pending_events;
    } else if (!is_destroyed(stream)) {
      block->users.push_back(stream);
    }
  }
  if (!block->users.empty()) {
    deferred_.push_back(block);
    ++pending_count_;
    ++block->pending_events;
  }
  if (block->pending_events > 0) return;
  ++block->pending_events;
  user_is_done(block);
}

void DeviceCache::collect_reached() {
  if (captures_exist()) return;
  record_deferred();
  for (auto& [stream, marks] : pending_) {
    while (!marks.empty()) {
      const Pending mark = marks.front();
      if (!event_reached(*mark.event)) break;
      marks.pop_front();
      --pending_count_;
      return_event(mark.event);
      user_is_done(mark.block);
    }
  }
}

// Returns when all marks are reached that were there; the failure of a task before one of them is thrown then. Marks that are
// waited for are nobody else's to collect.
void DeviceCache::wait_for_users(HeldLock& lock) {
  if (pending_count_ == 0) return;
  record_deferred();
  ++stats_.num_sync_all_streams;
  const auto waiting = std::exchange(pending_, {});
  const size_t count = std::exchange(pending_count_, 0);
  FirstFailure failure;
  lock.unlock();
  for (const auto& [stream, marks] : waiting) {
    for (const Pending& mark : marks) failure.attempt([&] { synchronize_event(*mark.event); });
  }
  lock.lock();
  for (const auto& [stream, marks] : waiting) {
    std::deque<Pending>& newer = pending_[stream];
    newer.insert(newer.begin(), marks.begin(), marks.end());
  }
  pending_count_ += count;
  collect_reached();
  failure.rethrow();
}

void DeviceCache::user_is_done(Block* block) {
  if (--block->pending_events > 0) return;
  if (watches_allocations()) history_.record(MemoryEvent::kFreeCompleted, *block);
  cache_free(block);
}

}  // namespace torch_npu
