// Virtual memory: reserved addresses, physical memory, and mappings.
#include "runtime/memory/virtual_memory.h"

#include "api.h"
#include "runtime/checks/faults.h"
#include "runtime/checks/races.h"
#include "runtime/device/device.h"
#include "runtime/device/process.h"
#include "runtime/engine/arena.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {
namespace {

constexpr uint64_t kHugePages = 1;  // a flag of aclrtReserveMemAddress; has no effect

Status check_zero(uint64_t value, const char* argument) {
  if (value == 0) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text("argument '", argument, "' (", value, ") must be 0")};
}

// Checks the properties of the memory and returns its device.
Result<Device*> check_memory(const aclrtPhysicalMemProp& memory) {
  if (memory.location.type != ACL_MEM_LOCATION_TYPE_DEVICE) {
    return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  text("prop->location.type ", int(memory.location.type), " is not ACL_MEM_LOCATION_TYPE_DEVICE"));
  }
  if (memory.handleType != ACL_MEM_HANDLE_TYPE_NONE || memory.allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, "prop must ask for ACL_MEM_HANDLE_TYPE_NONE and ACL_MEM_ALLOCATION_TYPE_PINNED");
  }
  Result<Device*> device = find_device(memory.location.id);
  if (device.ok() && device.value()->heap() == nullptr) {
    return Status(ACL_ERROR_RT_INVALID_DEVICEID, text("device ", memory.location.id, " was never used; set it first"));
  }
  return device;
}

}  // namespace

Status aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t flags) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_zero(alignment, "alignment"));
  SOFTNPU_RETURN_IF_ERROR(check_zero(flags & ~kHugePages, "flags"));
  if (expectPtr != nullptr) return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "argument 'expectPtr' must be null: the device chooses"};
  Result<void*> address = VirtualMemory::reserve(context.value()->device().host_number(), size);
  if (!address.ok()) return address.take_status();
  *virPtr = address.value();
  return {};
}

Status aclrtReleaseMemAddress(void* virPtr) { return VirtualMemory::release(virPtr); }

Status aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop, uint64_t flags) {
  SOFTNPU_RETURN_IF_ERROR(check_zero(flags, "flags"));
  Result<Device*> device = check_memory(*prop);
  if (!device.ok()) return device.take_status();
  Heap& heap = *device.value()->heap();
  if (Status fault = Faults::at_call(FaultPoint::kMalloc); !fault.ok()) {
    return {fault.code(), text("cannot allocate ", size, " bytes: device ", device.value()->number(), " has ",
                               heap.capacity() - heap.used(), " of ", heap.capacity(), " bytes free; ", fault.message())};
  }
  Result<void*> memory = VirtualMemory::take(device.value()->host_number(), heap, size);
  if (!memory.ok()) return memory.take_status();
  *handle = memory.value();
  return {};
}

Status aclrtFreePhysical(aclrtDrvMemHandle handle) { return VirtualMemory::give(handle); }

Status aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  SOFTNPU_RETURN_IF_ERROR(check_zero(offset, "offset"));
  SOFTNPU_RETURN_IF_ERROR(check_zero(flags, "flags"));
  SOFTNPU_RETURN_IF_ERROR(VirtualMemory::map(virPtr, size, handle));
  if (races_are_checked()) races().forget(virPtr, size);
  return {};
}

Status aclrtUnmapMem(void* virPtr) { return VirtualMemory::unmap(virPtr); }

Status aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option, size_t* granularity) {
  if (Result<Device*> device = check_memory(*prop); !device.ok()) return device.take_status();
  if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("argument 'option' (", int(option), ") is unknown; ask for MINIMUM or RECOMMENDED")};
  }
  *granularity = VirtualMemory::kGranularity;
  return {};
}

}  // namespace softnpu::api
