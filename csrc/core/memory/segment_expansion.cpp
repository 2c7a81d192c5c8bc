#include "core/memory/segment_expansion.h"

#include <c10/util/Exception.h>

#include <utility>

#include "acl/symbol.h"
#include "base/log.h"
#include "core/memory/allocation_sizes.h"

namespace torch_npu {

SegmentExpansion::Place SegmentExpansion::find_place(StreamCache& cache, size_t size) {
  Place best{};
  for (const auto& segment : cache.expandable) {
    if (segment->leaving > 0) continue;
    Block* last = nullptr;
    const auto consider = [&](char* end, const Block* next) {
      char* const begin = last == nullptr ? segment->begin() : last->address + last->size;
      const auto gap = static_cast<size_t>(end - begin);
      const size_t before = last != nullptr && last->is_free ? last->size : 0;
      const size_t behind = next != nullptr && next->is_free ? next->size : 0;
      size_t bytes = round_up(size > before ? size - before : 1, segment->page());
      if (bytes > gap && gap > 0 && before + gap + behind >= size) bytes = gap;
      if (bytes <= gap && (best.segment == nullptr || bytes < best.bytes)) best = {segment.get(), last, begin, bytes};
    };
    for (const auto& [begin, first] : segment->ranges) {
      consider(begin, first);
      for (last = first; last->after != nullptr;) last = last->after;
    }
    consider(segment->end(), nullptr);
  }
  if (best.segment != nullptr) return best;
  const size_t page = state_.settings.has_gib_pages ? kGiBPage : state_.settings.large_segment;
  const size_t bytes = round_up(size, page);
  std::unique_ptr<ExpandableSegment> made = ExpandableSegment::reserve(state_.device, page, bytes);
  if (made == nullptr) return {};
  ExpandableSegment* const segment = cache.expandable.emplace_back(std::move(made)).get();
  return {segment, nullptr, segment->begin(), bytes};
}

Block* SegmentExpansion::map(StreamCache& cache, const Place& place) {
  if (!source_.allows(place.bytes)) return nullptr;
  const aclError code = place.segment->map(place.begin, place.bytes);
  if (acl::is_out_of_memory(code)) {
    source_.note_refusal();
    return nullptr;
  }
  acl::check(code, "aclrtMallocPhysical");
  auto& stats = state_.stats;
  stats.num_device_alloc += static_cast<int64_t>(place.bytes / place.segment->page());
  if (logs(LogPart::kMemory, LogLevel::kInfo)) log(LogPart::kMemory, LogLevel::kInfo, c10::str("mapped ", place.bytes, " bytes"));
  Block* block = blocks_.new_block();
  block->address = place.begin;
  block->size = place.bytes;
  block->cache = &cache;
  block->is_small = false;
  block->is_oversize_segment = false;
  block->requested = 0;
  block->expandable = place.segment;
  for (const size_t kind : {0, 2}) stats.reserved_bytes[kind].increase(place.bytes);
  if (watches_allocations()) state_.history.record(MemoryEvent::kSegmentMap, *block);
  list_.add(block);
  if (place.last != nullptr) link(place.last, block);
  const auto next = place.segment->ranges.find(place.begin + place.bytes);
  if (next != place.segment->ranges.end()) link(block, next->second);
  block = blocks_.absorb(block, block->before);
  return blocks_.absorb(block, block->after);
}

// Joins two ranges that touch: `before` is the last block of one and `after` the first of the other.
void SegmentExpansion::link(Block* before, Block* after) {
  const bool before_is_free = before->is_free, after_is_free = after->is_free;
  if (before_is_free) blocks_.erase(before);
  if (after_is_free) blocks_.erase(after);
  list_.remove(after);
  before->after = after;
  after->before = before;
  if (before_is_free) blocks_.insert(before);
  if (after_is_free) blocks_.insert(after);
}

bool SegmentExpansion::has_whole_pages(const Block& block) {
  const ExpandableSegment* segment = block.expandable;
  return segment != nullptr && segment->next_page(block.address) < segment->page_of(block.address + block.size);
}

Block* SegmentExpansion::detach_pages(Block* block) {
  ExpandableSegment& segment = *block->expandable;
  char* const begin = segment.next_page(block->address);
  char* const end = segment.page_of(block->address + block->size);
  Block* const head = begin > block->address ? block : nullptr;
  Block* const pages = head != nullptr ? blocks_.split(block, static_cast<size_t>(begin - block->address)) : block;
  Block* const tail = end < pages->address + pages->size ? blocks_.split(pages, static_cast<size_t>(end - begin)) : nullptr;
  if (Block* before = std::exchange(pages->before, nullptr)) {
    before->after = nullptr;
    list_.add(pages);
  }
  if (Block* after = std::exchange(pages->after, nullptr)) {
    after->before = nullptr;
    list_.add(after);
  }
  if (head != nullptr) blocks_.insert(head);
  if (tail != nullptr) blocks_.insert(tail);
  return pages;
}

}  // namespace torch_npu
