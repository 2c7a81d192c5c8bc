// The segments of one DeviceCache, each by its first block. A range without gaps in an expandable segment counts as a segment.
//
//   list.add(first);
//   std::vector<SegmentView> views = list.views(/*pool=*/std::nullopt);
//
// Counts the segments in the statistics and in their pool. Owned by a DeviceCache and protected by its lock.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "core/memory/cache_state.h"
#include "core/memory/memory_snapshot.h"

namespace torch_npu {

class SegmentList {
 public:
  explicit SegmentList(CacheState& state) : state_(state) {}
  SegmentList(const SegmentList&) = delete;
  SegmentList& operator=(const SegmentList&) = delete;

  void add(Block* first);
  void remove(Block* first);

  // By address; of all pools or of one. Recent blocks count as allocated until they are merged.
  std::vector<SegmentView> views(std::optional<c10::MempoolId_t> pool) const;

 private:
  BlockView view_of(const Block& block) const;

  CacheState& state_;
  std::unordered_set<Block*> firsts_;
};

}  // namespace torch_npu
