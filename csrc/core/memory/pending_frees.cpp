#include "core/memory/pending_frees.h"

#include <utility>

#include "base/first_failure.h"
#include "core/stream/known_streams.h"
#include "core/stream/open_captures.h"

namespace torch_npu {
namespace {

// An event behind the present work of the stream. Null if the device refuses, as it does when the process exits.
PooledEvent* record_end(NPUStream stream) noexcept {
  try {
    NPUEvent event;
    event.record(stream);
    return event.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

void PendingFrees::add(Block* block) {
  if (captures_exist()) {
    defer(block);
  } else {
    record(block);
  }
}

void PendingFrees::defer(Block* block) {
  deferred_.push_back(block);
  ++count_;
  ++block->pending_events;
}

void PendingFrees::record_deferred() {
  for (Block* block : std::exchange(deferred_, {})) {
    --count_;
    --block->pending_events;
    record(block);
  }
}

// Records an event on each stream that uses `block`. A destroyed stream has no work left. Any other stream on which no event can
// be recorded may still use the block.
void PendingFrees::record(Block* block) {
  for (const NPUStream stream : std::exchange(block->users, {})) {
    if (PooledEvent* event = record_end(stream)) {
      events_[stream].push_back({event, block});
      ++count_;
      ++block->pending_events;
    } else if (!is_destroyed(stream)) {
      block->users.push_back(stream);
    }
  }
  if (!block->users.empty()) defer(block);
  if (block->pending_events > 0) return;
  ++block->pending_events;
  finish_event(block);
}

void PendingFrees::collect_reached() {
  if (captures_exist()) return;
  record_deferred();
  for (auto& [stream, events] : events_) {
    while (!events.empty()) {
      const Pending pending = events.front();
      if (!event_reached(*pending.event)) break;
      events.pop_front();
      --count_;
      return_event(pending.event);
      finish_event(pending.block);
    }
  }
}

// The events are taken out of events_ during the wait, so that no other thread returns them to their pool.
void PendingFrees::wait(CacheLock& lock) {
  if (count_ == 0) return;
  record_deferred();
  ++state_.stats.num_sync_all_streams;
  const auto waiting = std::exchange(events_, {});
  const size_t count = std::exchange(count_, 0);
  FirstFailure failure;
  lock.unlock();
  for (const auto& [stream, events] : waiting) {
    for (const Pending& pending : events) failure.attempt([&] { synchronize_event(*pending.event); });
  }
  lock.lock();
  for (const auto& [stream, events] : waiting) {
    std::deque<Pending>& newer = events_[stream];
    newer.insert(newer.begin(), events.begin(), events.end());
  }
  count_ += count;
  collect_reached();
  failure.rethrow();
}

void PendingFrees::finish_event(Block* block) {
  if (--block->pending_events > 0) return;
  if (watches_allocations()) state_.history.record(MemoryEvent::kFreeCompleted, *block);
  blocks_.add_recent(block);
}

}  // namespace torch_npu
