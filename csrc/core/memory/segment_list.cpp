#include "core/memory/segment_list.h"

#include <algorithm>

#include "core/memory/block_pools.h"

namespace torch_npu {

void SegmentList::add(Block* first) {
  firsts_.insert(first);
  ++first->cache->pool.segments;
  increase(state_.stats.segment, first->is_small, 1);
  if (first->expandable != nullptr) first->expandable->ranges.emplace(first->address, first);
}

void SegmentList::remove(Block* first) {
  firsts_.erase(first);
  --first->cache->pool.segments;
  decrease(state_.stats.segment, first->is_small, 1);
  if (first->expandable != nullptr) first->expandable->ranges.erase(first->address);
}

std::vector<SegmentView> SegmentList::views(std::optional<c10::MempoolId_t> pool) const {
  std::vector<SegmentView> views;
  for (const Block* first : firsts_) {
    const StreamCache& cache = *first->cache;
    if (pool && cache.pool.id != *pool) continue;
    SegmentView& segment = views.emplace_back(SegmentView{.device = state_.device,
                                                          .address = reinterpret_cast<uintptr_t>(first->address),
                                                          .stream = cache.stream.id(),
                                                          .is_small = first->is_small,
                                                          .pool = cache.pool.id,
                                                          .is_expandable = first->expandable != nullptr});
    for (const Block* block = first; block != nullptr; block = block->after) segment.add(view_of(*block));
  }
  std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return views;
}

BlockView SegmentList::view_of(const Block& block) const {
  const bool is_unused = block.is_free || block.requested == 0;
  const BlockView::State state = is_unused                  ? BlockView::kInactive
                                 : block.pending_events > 0 ? BlockView::kPendingFree
                                                            : BlockView::kAllocated;
  return {.address = reinterpret_cast<uintptr_t>(block.address),
          .size = block.size,
          .requested = is_unused ? 0 : block.requested,
          .state = state,
          .stack = is_unused ? nullptr : state_.history.stack_of(block)};
}

}  // namespace torch_npu
