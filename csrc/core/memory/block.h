// A block: a piece of a segment, either in use or free. A segment is memory that the device gave in one call.
//
// The blocks of a segment form a chain in the order of their addresses and cover the segment without gaps. FreeBlocks
// (free_blocks.h) makes the objects and reuses them. The lock of the DeviceCache protects them, except `address`, `size`,
// `cache` and `is_small` of a block in use, which do not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/memory/expandable_segment.h"
#include "core/stream/stream.h"

namespace torch_npu {

struct StreamCache;

struct Block {
  char* address = nullptr;
  size_t size = 0;
  size_t requested = 0;          // bytes of the request, while allocated; 0 while its segment is being given back
  size_t rounded = 0;            // `requested`, rounded by the settings at the time of the request
  StreamCache* cache = nullptr;  // the lists that it enters when it is free
  Block* before = nullptr;       // neighbours in the segment
  Block* after = nullptr;
  Block* previous = nullptr;                // neighbour in a list of SmallBlocks
  Block* next = nullptr;                    // neighbour in a list of SmallBlocks or RecentBlocks, or the next unused object
  uint32_t pending_events = 0;              // events of other streams that must be reached before it is free
  bool is_small = false;                    // its segment is for small requests
  bool is_free = false;                     // in SmallBlocks or LargeBlocks
  bool is_oversize = false;                 // the settings forbade to split it when it was allocated
  bool is_oversize_segment = false;         // of a first block: the settings forbade to split the segment when it was made
  uint64_t freed_at = 0;                    // value of FreeBlocks' clock when it became free
  ExpandableSegment* expandable = nullptr;  // the segment that it lies in, if that is expandable
  std::vector<NPUStream> users{};           // other streams that use it, by recordStream()

  bool is_split() const { return before != nullptr || after != nullptr; }
};

}  // namespace torch_npu
