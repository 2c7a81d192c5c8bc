// Blocks in expandable segments (expandable_segment.h): maps memory next to mapped memory, and detaches pages to give back.
//
//   const SegmentExpansion::Place place = expansion.find_place(cache, size);
//   if (place.segment != nullptr) block = expansion.map(cache, place);
//
// A part of Segments, protected by the lock of the DeviceCache, which is held all the time.
#pragma once

#include "core/memory/free_blocks.h"
#include "core/memory/segment_list.h"
#include "core/memory/segment_source.h"

namespace torch_npu {

class SegmentExpansion {
 public:
  // A range of addresses without memory.
  struct Place {
    ExpandableSegment* segment = nullptr;
    Block* last = nullptr;  // the block in front of it; null if there is none
    char* begin = nullptr;
    size_t bytes = 0;
  };

  SegmentExpansion(CacheState& state, FreeBlocks& blocks, SegmentList& list, SegmentSource& source)
      : state_(state), blocks_(blocks), list_(list), source_(source) {}
  SegmentExpansion(const SegmentExpansion&) = delete;
  SegmentExpansion& operator=(const SegmentExpansion&) = delete;

  // The place that needs the least new memory for a block of `size`. It is a gap in a segment of the stream, whose free
  // neighbours count, or lies in a new segment. Place::segment is null if the device has no addresses for a new segment.
  Place find_place(StreamCache& cache, size_t size);
  // Maps memory at `place`. Returns a block of it and its free neighbours, which is in no list. Null if the limit or the device
  // has no more memory; throws on any other failure.
  Block* map(StreamCache& cache, const Place& place);

  // Whether a free block contains pages that can be given back without the rest of it.
  static bool has_whole_pages(const Block& block);
  // Makes the whole pages of a block, which is in no list, a segment of their own and inserts the rest into the lists.
  Block* detach_pages(Block* block);

 private:
  void link(Block* before, Block* after);

  CacheState& state_;
  FreeBlocks& blocks_;
  SegmentList& list_;
  SegmentSource& source_;
};

}  // namespace torch_npu
