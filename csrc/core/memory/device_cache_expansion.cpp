// What DeviceCache does with expandable segments: blocks of memory that is mapped behind, between and in place of others.
#include <c10/util/Exception.h>

#include "acl/symbol.h"
#include "base/log.h"
#include "core/memory/device_cache.h"
#include "core/memory/device_cache_parts.h"

namespace torch_npu {

// Where the least has to be mapped so that a block of `size` is there: in a gap of a segment of this stream, where free
// neighbours count, or in a new segment. Nowhere, if the device has no addresses for that.
DeviceCache::ExpandablePlace DeviceCache::find_place(StreamCache& cache, size_t size) {
  ExpandablePlace best{};
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
  const size_t page = settings_.has_huge_pages ? kHugePage : settings_.large_segment;
  const size_t bytes = round_up(size, page);
  std::unique_ptr<ExpandableSegment> made = ExpandableSegment::reserve(device_, page, bytes);
  if (made == nullptr) return {};
  ExpandableSegment* const segment = cache.expandable.emplace_back(std::move(made)).get();
  return {segment, nullptr, segment->begin(), bytes};
}

// A block, in no cache, of what is mapped there together with free neighbours.
Block* DeviceCache::expand(StreamCache& cache, const ExpandablePlace& place) {
  const size_t reserved = static_cast<size_t>(stats_.reserved_bytes[0].current) + asked_for_, most = allowed();
  refusal_.clear();
  if (place.bytes > most || reserved > most - place.bytes) return nullptr;
  const aclError code = place.segment->map(place.begin, place.bytes);
  if (acl::is_out_of_memory(code)) {
    if (const char* reason = ACL_FN(aclGetRecentErrMsg)()) refusal_ = reason;
    return nullptr;
  }
  acl::check(code, "aclrtMallocPhysical");
  stats_.num_device_alloc += static_cast<int64_t>(place.bytes / place.segment->page());
  if (logs(LogPart::kMemory, LogLevel::kInfo)) log(LogPart::kMemory, LogLevel::kInfo, c10::str("mapped ", place.bytes, " bytes"));
  Block* block = new_block();
  block->address = place.begin;
  block->size = place.bytes;
  block->cache = &cache;
  block->is_small = false;
  block->is_oversize_segment = false;
  block->requested = 0;
  block->expandable = place.segment;
  for (const size_t kind : {0, 2}) stats_.reserved_bytes[kind].increase(place.bytes);
  if (watches_allocations()) history_.record(MemoryEvent::kSegmentMap, *block);
  add_segment(block);
  if (place.last != nullptr) link(place.last, block);
  const auto next = place.segment->ranges.find(place.begin + place.bytes);
  if (next != place.segment->ranges.end()) link(block, next->second);
  block = absorb(block, block->before);
  return absorb(block, block->after);
}

// Two ranges of an expandable segment touch: `after`, the first block of one, then follows `before`, the last of the other.
void DeviceCache::link(Block* before, Block* after) {
  const bool before_is_free = before->is_free, after_is_free = after->is_free;
  if (before_is_free) leave(before);
  if (after_is_free) leave(after);
  remove_segment(after);
  before->after = after;
  after->before = before;
  if (before_is_free) enter(before);
  if (after_is_free) enter(after);
}

// Makes the whole pages of a free block, which is in no cache, a segment of their own; what is left of it is cached.
Block* DeviceCache::detach_pages(Block* block) {
  ExpandableSegment& segment = *block->expandable;
  char* const begin = segment.next_page(block->address);
  char* const end = segment.page_of(block->address + block->size);
  Block* const head = begin > block->address ? block : nullptr;
  Block* const pages = head != nullptr ? divide(block, static_cast<size_t>(begin - block->address)) : block;
  Block* const tail = end < pages->address + pages->size ? divide(pages, static_cast<size_t>(end - begin)) : nullptr;
  if (Block* before = std::exchange(pages->before, nullptr)) {
    before->after = nullptr;
    add_segment(pages);
  }
  if (Block* after = std::exchange(pages->after, nullptr)) {
    after->before = nullptr;
    add_segment(after);
  }
  if (head != nullptr) enter(head);
  if (tail != nullptr) enter(tail);
  return pages;
}

// Whether memory of an expandable segment could be given back without the rest of its block.
bool DeviceCache::has_whole_pages(const Block& block) {
  const ExpandableSegment* segment = block.expandable;
  return segment != nullptr && segment->next_page(block.address) < segment->page_of(block.address + block.size);
}

}  // namespace torch_npu
