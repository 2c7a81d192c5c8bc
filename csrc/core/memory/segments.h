// Gets new segments for one DeviceCache, finds the free ones and gives them back to the device.
//
//   Block* block = segments.get(lock, cache, size, is_small);
//   segments.give_back(lock, segments.take_free(/*pool=*/{0, 0}));
//
// Owned by a DeviceCache and protected by its lock. get() and give_back() release the lock for calls of a pool's functions and
// for waits.
#pragma once

#include <vector>

#include "core/memory/segment_expansion.h"

namespace torch_npu {

class Segments {
 public:
  Segments(CacheState& state, BlockPools& pools, FreeBlocks& blocks, SegmentList& list, SegmentSource& source)
      : state_(state), pools_(pools), blocks_(blocks), list_(list), source_(source), expansion_(state, blocks, list, source) {}
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // A block of new memory, in no list, for a request of `size`: a whole segment, or memory mapped in an expandable one together
  // with free neighbours. Null if there is no memory; throws on any other failure. Binds the current device.
  Block* get(CacheLock& lock, StreamCache& cache, size_t size, bool is_small);

  // Free segments of a pool, or of the default pool and all dropped ones for {0, 0}. A pool that a graph uses has none: replays
  // write to blocks that were freed during the capture.
  bool has_free(c10::MempoolId_t pool);
  // Takes them out of their lists. Of an expandable segment, whole free pages.
  std::vector<Block*> take_free(c10::MempoolId_t pool);
  // The same for segments for large requests of the default pool: those that were free longest, until they add up to `bytes`.
  std::vector<Block*> take_oldest_free(size_t bytes);

  // Gives taken segments back to the device, after a wait for all work, because any stream may still use them. If the wait fails,
  // the segments become free again, and the failure is thrown. The caller holds a NoCaptures (core/stream/all_work.h). Erases
  // dropped pools that have no segments left.
  void give_back(CacheLock& lock, const std::vector<Block*>& segments);

 private:
  template <typename Action>
  void for_each_free(c10::MempoolId_t pool, Action&& action);
  void give_back_one(Block* block);

  CacheState& state_;
  BlockPools& pools_;
  FreeBlocks& blocks_;
  SegmentList& list_;
  SegmentSource& source_;
  SegmentExpansion expansion_;
};

}  // namespace torch_npu
