#include "core/memory/expandable_segment.h"

#include <algorithm>

#include "acl/symbol.h"
#include "core/device/device.h"

namespace torch_npu {

std::unique_ptr<ExpandableSegment> ExpandableSegment::reserve(c10::DeviceIndex device, size_t page, size_t least) {
  const size_t total = device_memory(device).second;
  const size_t fewest = least / page;
  for (size_t pages = std::max((total + total / 8) / page, fewest);; pages = std::max(pages / 2, fewest)) {
    void* address = nullptr;
    if (ACL_FN(aclrtReserveMemAddress)(&address, pages * page, 0, nullptr, 0) == ACL_SUCCESS) {
      return std::unique_ptr<ExpandableSegment>(new ExpandableSegment(device, static_cast<char*>(address), page, pages));
    }
    ACL_FN(aclGetRecentErrMsg)();  // clears the message: it must not appear in a later error
    if (pages == fewest) return nullptr;
  }
}

ExpandableSegment::~ExpandableSegment() { ACL_FN(aclrtReleaseMemAddress)(begin_); }

aclError ExpandableSegment::map(char* address, size_t bytes) {
  aclrtPhysicalMemProp memory{};
  memory.handleType = ACL_MEM_HANDLE_TYPE_NONE;
  memory.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  memory.memAttr = ACL_HBM_MEM_HUGE;
  memory.location = {.id = static_cast<uint32_t>(device_), .type = ACL_MEM_LOCATION_TYPE_DEVICE};
  for (char* page = address; page < address + bytes; page += page_) {
    aclrtDrvMemHandle& handle = pages_[index_of(page)];
    aclError code = ACL_FN(aclrtMallocPhysical)(&handle, page_, &memory, 0);
    if (code == ACL_SUCCESS) {
      code = ACL_FN(aclrtMapMem)(page, page_, 0, handle, 0);
      if (code != ACL_SUCCESS) ACL_FN(aclrtFreePhysical)(handle);
    }
    if (code == ACL_SUCCESS) continue;
    handle = nullptr;
    if (page > address) unmap(address, static_cast<size_t>(page - address));
    return code;
  }
  return ACL_SUCCESS;
}

aclError ExpandableSegment::unmap(char* address, size_t bytes) {
  aclError first = ACL_SUCCESS;
  for (char* page = address; page < address + bytes; page += page_) {
    aclrtDrvMemHandle& handle = pages_[index_of(page)];
    for (const aclError code : {ACL_FN(aclrtUnmapMem)(page), ACL_FN(aclrtFreePhysical)(handle)}) {
      if (first == ACL_SUCCESS) first = code;
    }
    handle = nullptr;
  }
  return first;
}

}  // namespace torch_npu
