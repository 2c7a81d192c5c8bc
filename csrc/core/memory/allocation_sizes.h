// The sizes of the blocks and segments that serve a request.
//
//   const size_t size = block_size(settings, bytes);        // of the block
//   const size_t segment = segment_size(settings, size);    // of a new segment for that block
#pragma once

#include <c10/core/AllocatorConfig.h>

#include <bit>
#include <cstddef>

#include "core/memory/allocator_settings.h"
#include "core/memory/block.h"

namespace torch_npu {

constexpr size_t kBlockUnit = 512;              // block sizes are multiples of it
constexpr size_t kSmallSegment = 2 << 20;       // bytes of a segment for small requests
constexpr size_t kMostSmall = 1 << 20;          // the largest small request
constexpr size_t kMostShared = 10 << 20;        // the largest request that shares a large segment
constexpr size_t kSegmentUnit = 2 << 20;        // segments for larger requests are multiples of it
constexpr size_t kGiBPage = 1 << 30;            // segments are multiples of it with page_size:1g
constexpr size_t kMostBytes = size_t{1} << 60;  // requests of this size or more fail at once

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

inline size_t block_size(const CacheSettings& settings, size_t bytes) {
  if (settings.rounds_to_powers) [[unlikely]] {
    const size_t divisions = c10::CachingAllocator::AcceleratorAllocatorConfig::roundup_power2_divisions(bytes);
    const bool applies = divisions > 1 && bytes > kBlockUnit * divisions && !std::has_single_bit(bytes);
    if (applies) bytes = round_up(bytes, std::bit_floor(bytes) / divisions);
  }
  return round_up(bytes, kBlockUnit);
}

// For a segment that is not expandable.
inline size_t segment_size(const CacheSettings& settings, size_t block) {
  if (block <= kMostSmall) return kSmallSegment;
  if (settings.has_gib_pages) return round_up(block, kGiBPage);
  if (block < kMostShared) return settings.large_segment;
  return round_up(block, kSegmentUnit);
}

// Whether a free block is split to serve a request of `size`.
inline bool is_worth_splitting(const CacheSettings& settings, const Block& block, size_t size) {
  const size_t rest = block.size - size;
  if (block.is_small) return rest >= kBlockUnit;
  return size < settings.max_split && rest > kMostSmall;
}

// Whether the settings forbid to split the block because of its size.
inline bool is_oversize(const CacheSettings& settings, const Block& block) {
  return !block.is_small && block.size >= settings.max_split;
}

}  // namespace torch_npu
