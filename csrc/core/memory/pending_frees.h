// Freed blocks that other streams may still use: recordStream() named those streams.
//
//   pending.add(block);           // records an event on each of these streams
//   pending.collect_reached();    // blocks whose events are all reached become free
//
// A block becomes free, as FreeBlocks::add_recent() says, when all its events are reached. While a graph is being captured,
// events can be neither recorded nor queried, so blocks wait in a list and their events are recorded later. A stream on which no
// event can be recorded is tried again later.
//
// Owned by a DeviceCache and protected by its lock. add() does not throw; the other two throw if the device refuses an event.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "core/memory/cache_state.h"
#include "core/memory/free_blocks.h"
#include "core/stream/event.h"

namespace torch_npu {

class PendingFrees {
 public:
  PendingFrees(CacheState& state, FreeBlocks& blocks) : state_(state), blocks_(blocks) {}
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  // Events, and blocks that wait for theirs to be recorded.
  size_t count() const { return count_; }

  // `block` was freed; Block::users names the other streams.
  void add(Block* block);
  void collect_reached();
  // Waits for all events that are pending at the time of the call, without the lock, and frees their blocks. Throws the failure
  // of a task in front of such an event, after the wait.
  void wait(CacheLock& lock);

 private:
  struct Pending {
    PooledEvent* event;
    Block* block;
  };

  void defer(Block* block);
  void record(Block* block);
  void record_deferred();
  void finish_event(Block* block);

  CacheState& state_;
  FreeBlocks& blocks_;
  std::unordered_map<NPUStream, std::deque<Pending>> events_;  // in the order of each stream
  std::vector<Block*> deferred_;                               // their events are recorded later
  size_t count_ = 0;
};

}  // namespace torch_npu
