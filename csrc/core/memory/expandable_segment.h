// A range of device addresses into which memory is mapped page by page: a segment that can grow in place and give single pages
// back.
//
//   auto segment = ExpandableSegment::reserve(device, /*page=*/20 << 20, /*least=*/bytes);
//   aclError code = segment->map(segment->begin(), 20 << 20);
//   segment->unmap(segment->begin(), 20 << 20);
//
// StreamCache (block_pools.h) owns the objects. The calling thread has bound the device. Not thread-safe: the lock of the
// DeviceCache protects it.
#pragma once

#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <vector>

#include "acl/acl_rt.h"

namespace torch_npu {

struct Block;

class ExpandableSegment {
 public:
  // Reserves 9/8 of the device's memory size; if the device has too few addresses, half of that, and so on, down to `least`. Null
  // if that fails too. Sizes are multiples of `page`.
  static std::unique_ptr<ExpandableSegment> reserve(c10::DeviceIndex device, size_t page, size_t least);
  // No memory may be mapped.
  ~ExpandableSegment();
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;

  char* begin() const { return begin_; }
  char* end() const { return begin_ + pages_.size() * page_; }
  size_t page() const { return page_; }
  // `address`, rounded down and up to the beginning of a page.
  char* page_of(const char* address) const { return begin_ + static_cast<size_t>(address - begin_) / page_ * page_; }
  char* next_page(const char* address) const { return page_of(address + page_ - 1); }

  // Maps memory into pages that have none. On failure nothing is mapped, and the device's error code is returned.
  aclError map(char* address, size_t bytes);
  // Removes the memory of the pages. Returns the first error code; the other pages are unmapped all the same.
  aclError unmap(char* address, size_t bytes);

  // The mapped ranges without gaps: address and first block. SegmentList maintains it.
  std::map<char*, Block*> ranges{};
  // Count of blocks that a thread is giving back without the lock of the DeviceCache. While it is not 0, nothing is mapped.
  int leaving = 0;

 private:
  ExpandableSegment(c10::DeviceIndex device, char* begin, size_t page, size_t pages)
      : device_(device), begin_(begin), page_(page), pages_(pages) {}

  size_t index_of(const char* address) const { return static_cast<size_t>(address - begin_) / page_; }

  const c10::DeviceIndex device_;
  char* const begin_;
  const size_t page_;
  std::vector<aclrtDrvMemHandle> pages_;  // null: nothing is mapped
};

}  // namespace torch_npu
