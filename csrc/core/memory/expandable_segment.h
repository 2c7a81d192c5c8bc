// Addresses of a device into which memory is mapped page by page: a segment that can grow where it is, and be thinned out.
//
//   auto segment = ExpandableSegment::reserve(device, /*page=*/20 << 20, /*least=*/bytes);
//   aclError code = segment->map(segment->begin(), 20 << 20);
//   segment->unmap(segment->begin(), 20 << 20);
//
// The calling thread has bound the device. Not thread-safe: DeviceCache locks.
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
  // Somewhat more than the device has memory, or what the device has addresses for, but at least `least`; null if it has not. All
  // sizes are whole pages.
  static std::unique_ptr<ExpandableSegment> reserve(c10::DeviceIndex device, size_t page, size_t least);
  // When nothing is mapped.
  ~ExpandableSegment();
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;

  char* begin() const { return begin_; }
  char* end() const { return begin_ + pages_.size() * page_; }
  size_t page() const { return page_; }
  // The beginning of the page around `address`, and of the page behind it unless it is one itself.
  char* page_of(const char* address) const { return begin_ + static_cast<size_t>(address - begin_) / page_ * page_; }
  char* next_page(const char* address) const { return page_of(address + page_ - 1); }

  // Memory for pages that have none. If the device has not enough, its code, and nothing is mapped.
  aclError map(char* address, size_t bytes);
  // The first failure; the pages are without memory all the same.
  aclError unmap(char* address, size_t bytes);

  // What is mapped, as DeviceCache cuts it: the first block of each range without a gap, by address.
  std::map<char*, Block*> ranges{};
  // Blocks that a thread is giving back without the lock of the cache. While there are any, nothing is mapped beside them.
  int leaving = 0;

 private:
  ExpandableSegment(c10::DeviceIndex device, char* begin, size_t page, size_t pages)
      : device_(device), begin_(begin), page_(page), pages_(pages) {}

  size_t index_of(const char* address) const { return static_cast<size_t>(address - begin_) / page_; }

  const c10::DeviceIndex device_;
  char* const begin_;
  const size_t page_;
  std::vector<aclrtDrvMemHandle> pages_;  // null: no memory
};

}  // namespace torch_npu
