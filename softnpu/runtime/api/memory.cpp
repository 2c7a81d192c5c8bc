// Device memory, host memory that devices can use, copies, fills and reductions.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "api.h"
#include "runtime/base/options.h"
#include "runtime/checks/faults.h"
#include "runtime/checks/races.h"
#include "runtime/device/device.h"
#include "runtime/device/process.h"
#include "runtime/engine/arena.h"
#include "runtime/memory/heaps.h"
#include "runtime/memory/host_memory.h"
#include "runtime/memory/ipc_memory.h"
#include "runtime/memory/ledger.h"
#include "runtime/stream/copy.h"
#include "runtime/stream/host_probe.h"
#include "runtime/stream/reduce.h"
#include "runtime/stream/stream.h"
#include "runtime/stream/submit_with_faults.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {
namespace {

constexpr uint32_t kReportedPage = 4096;

Status check_config(const aclrtMallocConfig* config, int device) {
  if (config == nullptr) return {};
  if (config->numAttrs > 0 && config->attrs == nullptr)
    return {ACL_ERROR_INVALID_PARAM, "cfg->attrs is null, but cfg->numAttrs is not 0"};
  for (size_t i = 0; i < config->numAttrs; ++i) {
    const aclrtMallocAttribute& attribute = config->attrs[i];
    switch (attribute.attr) {
      case ACL_RT_MEM_ATTR_RSV:
      case ACL_RT_MEM_ATTR_MODULE_ID:  // accounting by module is not supported; the value is ignored
      case ACL_RT_MEM_ATTR_VA_FLAG:
        break;
      case ACL_RT_MEM_ATTR_DEVICE_ID:
        if (device >= 0 && attribute.value.deviceId != uint32_t(device)) {
          return {ACL_ERROR_RT_INVALID_DEVICEID,
                  text("cfg asks for device ", attribute.value.deviceId, ", but this thread's device is ", device)};
        }
        break;
      default:
        return {ACL_ERROR_RT_PARAM_INVALID, text("cfg->attrs[", i, "].attr ", int(attribute.attr), " is unknown")};
    }
  }
  return {};
}

Status allocate(void** result, size_t size, const aclrtMallocConfig* config) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  Device& device = device_of(*context.value());
  SOFTNPU_RETURN_IF_ERROR(check_config(config, device.number()));
  Heap& heap = *device.heap();
  if (Status fault = Faults::at_call(FaultPoint::kMalloc); !fault.ok()) {
    return {fault.code(), text("cannot allocate ", size, " bytes: device ", device.number(), " has ",
                               heap.capacity() - heap.used(), " of ", heap.capacity(), " bytes free; ", fault.message())};
  }
  Result<void*> block = heap.allocate(size);
  if (!block.ok()) return block.take_status();
  *result = block.value();
  if (races_are_checked()) races().forget(block.value(), size);
  return {};
}

Status allocate_host(void** result, size_t size, const aclrtMallocConfig* config) {
  SOFTNPU_RETURN_IF_ERROR(check_config(config, -1));
  if (Status fault = Faults::at_call(FaultPoint::kHostMalloc); !fault.ok()) {
    return {fault.code(), text("the host has no ", size, " bytes of memory: ", fault.message())};
  }
  Result<void*> block = host_memory().allocate(size);
  if (!block.ok()) return block.take_status();
  *result = block.value();
  if (races_are_checked()) races().forget(block.value(), size);
  return {};
}

// Registers memory of the client, which must be mapped, and returns its address for devices.
Result<void*> register_host(void* pointer, size_t size, uint32_t flags) {
  if (size > 0) SOFTNPU_RETURN_IF_ERROR(check_host_range(pointer, size, "ptr"));
  return host_memory().register_range(pointer, size, flags);
}

// Reports a race if a stream may still use host memory that is about to be freed or unregistered.
Status check_host_release(const char* function, void* pointer, HostMemoryKind kind) {
  if (!races_are_checked()) return {};
  const HostRange range = host_memory().find(pointer);
  if (range.kind != kind || range.base != pointer) return {};
  return races().check_free(function, range.base, range.bytes);
}

Status check_room(size_t room, size_t count, const char* name) {
  if (count <= room) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text("argument 'count' (", count, ") is larger than '", name, "' (", room, ")")};
}

Result<CheckedCopy> check_row(void* destination, size_t room, const void* source, size_t count) {
  SOFTNPU_RETURN_IF_ERROR(check_room(room, count, "destMax"));
  return check_copy(
      {.destination = destination, .destination_pitch = count, .source = source, .source_pitch = count, .width = count});
}

Status check_location(const Place& place, const aclrtMemLocation& location, const char* name) {
  const bool agrees = place.is_device() ? location.type == ACL_MEM_LOCATION_TYPE_DEVICE && int64_t(location.id) == place.device
                                        : location.type == ACL_MEM_LOCATION_TYPE_HOST;
  if (agrees) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text(name, " says type ", int(location.type), " id ", location.id, ", but the address is ",
                                           place.is_device() ? text("on device ", place.device) : std::string("host memory"))};
}

struct Batch {
  void** destinations;
  size_t* rooms;
  void** sources;
  size_t* sizes;
  size_t count;
  aclrtMemcpyBatchAttr* attributes;
  size_t* attribute_indexes;
  size_t attribute_count;
  size_t* fail_index;
};

// Checks all copies of a batch before the first one runs.
Result<std::vector<CheckedCopy>> check_batch(const Batch& batch) {
  if (batch.fail_index != nullptr) *batch.fail_index = SIZE_MAX;
  if (batch.count == 0 || batch.attribute_count == 0 || batch.attribute_count > batch.count) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, text("a batch of ", batch.count, " copies with ", batch.attribute_count,
                                                   " attributes; there must be at least one of each, "
                                                   "and no more attributes than copies"));
  }
  for (size_t i = 0; i < batch.attribute_count; ++i) {
    const bool rises = i == 0 ? batch.attribute_indexes[0] == 0 : batch.attribute_indexes[i] > batch.attribute_indexes[i - 1];
    if (!rises || batch.attribute_indexes[i] >= batch.count) {
      return Status(ACL_ERROR_RT_PARAM_INVALID, "attrsIndexes must start with 0, rise, and stay below numBatches");
    }
  }
  std::vector<CheckedCopy> copies;
  size_t attribute = 0;
  const auto check_item = [&](size_t i) -> Status {
    if (batch.destinations[i] == nullptr || batch.sources[i] == nullptr)
      return {ACL_ERROR_INVALID_PARAM, text("item ", i, " has a null address")};
    Result<CheckedCopy> copy = check_row(batch.destinations[i], batch.rooms[i], batch.sources[i], batch.sizes[i]);
    if (!copy.ok()) return copy.take_status();
    SOFTNPU_RETURN_IF_ERROR(check_location(copy.value().destination, batch.attributes[attribute].dstLoc, "dstLoc"));
    SOFTNPU_RETURN_IF_ERROR(check_location(copy.value().source, batch.attributes[attribute].srcLoc, "srcLoc"));
    copies.push_back(copy.value());
    const bool same_direction = copies[0].source.is_device() == copies[i].source.is_device() &&
                                copies[0].destination.is_device() == copies[i].destination.is_device();
    if (!same_direction)
      return {ACL_ERROR_RT_PARAM_INVALID, text("item ", i, " goes another way than item 0; one batch has one direction")};
    return {};
  };
  for (size_t i = 0; i < batch.count; ++i) {
    if (attribute + 1 < batch.attribute_count && i >= batch.attribute_indexes[attribute + 1]) ++attribute;
    if (Status status = check_item(i); !status.ok()) {
      if (batch.fail_index != nullptr) *batch.fail_index = i;
      return status;
    }
  }
  return copies;
}

struct ReduceTask {
  void* destination;
  const void* source;
  size_t count;
  size_t bytes;
  ReduceFunction function;
};

constexpr SoftnpuTaskKind kReduceKind = {.name = "aclrtReduceAsync",
                                         .run = [](void* payload, char*) -> aclError {
                                           const auto& task = *static_cast<ReduceTask*>(payload);
                                           task.function(task.destination, task.source, task.count);
                                           return ACL_SUCCESS;
                                         },
                                         .release = nullptr,
                                         .ready = nullptr,
                                         .flags = 0,
                                         .visit =
                                             [](const void* payload, SoftnpuAccessVisitor visitor, void* context) {
                                               const auto& task = *static_cast<const ReduceTask*>(payload);
                                               visitor(context, task.destination, task.bytes, SOFTNPU_ACCESS_WRITES);
                                               visitor(context, task.source, task.bytes, 0);
                                             }};

}  // namespace

Status aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy /*policy*/) { return allocate(devPtr, size, nullptr); }

Status aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy /*policy*/) { return allocate(devPtr, size, nullptr); }

Status aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy /*policy*/) { return allocate(devPtr, size, nullptr); }

Status aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy /*policy*/, aclrtMallocConfig* cfg) {
  return allocate(devPtr, size, cfg);
}

Status aclrtFree(void* devPtr) {
  if (!Arena::contains(devPtr)) {
    return {ACL_ERROR_RT_PARAM_INVALID, text(devPtr, " is not a device address; aclrtFreeHost frees pinned host memory")};
  }
  Heap* heap = Heaps::find(devPtr).heap;
  if (heap == nullptr) return {ACL_ERROR_RT_PARAM_INVALID, text(devPtr, " was never allocated: its device was never used")};
  Status race;
  const std::optional<Allocation> block = heap->find(devPtr);
  if (block && !heap->owns(devPtr)) {
    return {ACL_ERROR_RT_PARAM_INVALID,
            text(devPtr, " was not allocated but imported or mapped; aclrtIpcMemClose or aclrtUnmapMem gives it back")};
  }
  if (block && block->base == devPtr) {
    if (races_are_checked()) race = races().check_free("aclrtFree", block->base, block->bytes);
    IpcMemory::forget_exports(block->base, block->bytes);
  }
  SOFTNPU_RETURN_IF_ERROR(heap->free(devPtr));
  return race;
}

Status aclrtMallocHost(void** hostPtr, size_t size) { return allocate_host(hostPtr, size, nullptr); }

Status aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) { return allocate_host(ptr, size, cfg); }

Status aclrtFreeHost(void* hostPtr) {
  Status race = check_host_release("aclrtFreeHost", hostPtr, HostMemoryKind::kPinned);
  SOFTNPU_RETURN_IF_ERROR(host_memory().free(hostPtr));
  return race;
}

Status aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  if (attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G)
    return {ACL_ERROR_RT_PARAM_INVALID, text("memory attribute ", int(attr), " is unknown")};
  const bool is_ddr = attr == ACL_DDR_MEM || attr == ACL_DDR_MEM_HUGE || attr == ACL_DDR_MEM_NORMAL ||
                      attr == ACL_DDR_MEM_P2P_HUGE || attr == ACL_DDR_MEM_P2P_NORMAL;
  *free = *total = 0;
  if (is_ddr) return {};  // all memory is HBM, as on the 910 chips
  const Device& device = device_of(*context.value());
  device.heap()->trim();
  const Usage usage = ledger().usage(device.host_number());
  const auto rest = [](uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; };
  *total = device.heap()->capacity();
  *free = std::min(rest(*total, usage.device), rest(options().host_memory, usage.host));
  return {};
}

Status aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo* memUsageInfo, size_t inputNum, size_t* outputNum) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  if (inputNum == 0) return {ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, "argument 'inputNum' is 0; there is one entry to write"};
  const Heap* heap = device.value()->heap();
  *memUsageInfo = {};
  std::snprintf(memUsageInfo->name, sizeof memUsageInfo->name, "softnpu");
  memUsageInfo->curMemSize = heap == nullptr ? 0 : heap->used();
  memUsageInfo->memPeakSize = heap == nullptr ? 0 : heap->peak();
  *outputNum = 1;
  return {};
}

Status aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  *attributes = {};
  attributes->pageSize = kReportedPage;
  if (Arena::contains(ptr)) {
    Result<Place> place = locate_device(ptr, 0, "ptr");
    if (!place.ok()) return place.take_status();
    attributes->location = {.id = uint32_t(place.value().device), .type = ACL_MEM_LOCATION_TYPE_DEVICE};
    return {};
  }
  const bool is_ours = host_memory().find(ptr).kind != HostMemoryKind::kPageable;
  attributes->location = {.id = 0, .type = is_ours ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_UNREGISTERED};
  return {};
}

Status aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
  if (type != ACL_HOST_REGISTER_MAPPED && type != ACL_HOST_REGISTER_IOMEMORY && type != ACL_HOST_REGISTER_READONLY) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("type ", int(type), " is unknown; it is one of aclrtHostRegisterType")};
  }
  Result<void*> address = register_host(ptr, size, uint32_t(type));
  if (!address.ok()) return address.take_status();
  *devPtr = address.value();
  return {};
}

Status aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  constexpr uint32_t kKnown = ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;
  if (flag & ~kKnown)
    return {ACL_ERROR_RT_PARAM_INVALID, text("flag ", flag, " has unknown bits; ACL_HOST_REG_* lists the known ones")};
  Result<void*> address = register_host(ptr, size, flag);
  return address.ok() ? Status() : address.take_status();
}

Status aclrtHostUnregister(void* ptr) {
  Status race = check_host_release("aclrtHostUnregister", ptr, HostMemoryKind::kRegistered);
  SOFTNPU_RETURN_IF_ERROR(host_memory().unregister(ptr));
  return race;
}

Status aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
  if (flag != 0) return {ACL_ERROR_RT_PARAM_INVALID, text("flag ", flag, " must be 0")};
  if (host_memory().find(pHost).kind == HostMemoryKind::kPageable) {
    return {ACL_ERROR_RT_PARAM_INVALID, text(pHost, " is neither pinned nor registered host memory")};
  }
  *pDevice = pHost;
  return {};
}

Status aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  if (Result<Context*> context = current_context(); !context.ok()) return context.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_room(maxCount, count, "maxCount"));
  if (count == 0) return {ACL_ERROR_RT_PARAM_INVALID, "a fill of 0 bytes was asked for"};
  Result<Place> place = locate(devPtr, count, "devPtr");
  if (!place.ok()) return place.take_status();
  return fill_now(place.value(), uint8_t(value), count);
}

Status aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, Stream& stream) {
  SOFTNPU_RETURN_IF_ERROR(check_room(maxCount, count, "maxCount"));
  if (count == 0) return {ACL_ERROR_RT_PARAM_INVALID, "a fill of 0 bytes was asked for"};
  Result<Place> place = locate_device(devPtr, count, "devPtr");
  if (!place.ok()) return place.take_status();
  return fill_in_order(place.value(), uint8_t(value), count, stream);
}

Status aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind /*kind*/) {
  Result<CheckedCopy> copy = check_row(dst, destMax, src, count);
  return copy.ok() ? copy_now(copy.value()) : copy.take_status();
}

Status aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind, Stream& stream) {
  Result<CheckedCopy> copy = check_row(dst, destMax, src, count);
  return copy.ok() ? copy_in_order(copy.value(), kind, stream) : copy.take_status();
}

Status aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                     Stream& stream) {
  return api::aclrtMemcpyAsync(dst, destMax, src, count, kind, stream);
}

Status aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                     aclrtMemcpyKind /*kind*/) {
  Result<CheckedCopy> copy = check_copy({dst, dpitch, src, spitch, width, height});
  return copy.ok() ? copy_now(copy.value()) : copy.take_status();
}

Status aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                          aclrtMemcpyKind kind, Stream& stream) {
  Result<CheckedCopy> copy = check_copy({dst, dpitch, src, spitch, width, height});
  return copy.ok() ? copy_in_order(copy.value(), kind, stream) : copy.take_status();
}

Status aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches, aclrtMemcpyBatchAttr* attrs,
                        size_t* attrsIndexes, size_t numAttrs, size_t* failIndex) {
  Result<std::vector<CheckedCopy>> copies =
      check_batch({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex});
  if (!copies.ok()) return copies.take_status();
  for (const CheckedCopy& copy : copies.value()) SOFTNPU_RETURN_IF_ERROR(copy_now(copy));
  return {};
}

Status aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                             aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
                             Stream& stream) {
  Result<std::vector<CheckedCopy>> copies =
      check_batch({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex});
  if (!copies.ok()) return copies.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_direction(copies.value()[0], ACL_MEMCPY_DEFAULT));
  for (const CheckedCopy& copy : copies.value()) SOFTNPU_RETURN_IF_ERROR(copy_in_order(copy, ACL_MEMCPY_DEFAULT, stream));
  return {};
}

Status aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, Stream& /*stream*/) {
  if (cmoType < ACL_RT_CMO_TYPE_PREFETCH || cmoType > ACL_RT_CMO_TYPE_FLUSH) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("cache operation ", int(cmoType), " is unknown; it is one of aclrtCmoType")};
  }
  if (size == 0) return {ACL_ERROR_RT_PARAM_INVALID, "a cache operation on 0 bytes was asked for"};
  Result<Place> place = locate_device(src, size, "src");  // only checked: the caches of the host need no operation
  return place.ok() ? Status() : place.take_status();
}

Status aclrtReduceAsync(void* dst, const void* src, uint64_t count, aclrtReduceKind kind, aclDataType type, Stream& stream,
                        void* /*reserve*/) {
  Result<ReduceFunction> function = find_reduce(kind, type);
  if (!function.ok()) return function.take_status();
  const size_t element = aclDataTypeSize(type);
  if (count == 0 || count % element != 0) {
    return {ACL_ERROR_RT_PARAM_INVALID,
            text("argument 'count' (", count, ") is in bytes and must be a positive multiple of the element size ", element)};
  }
  Result<Place> destination = locate_device(dst, count, "dst");
  if (!destination.ok()) return destination.take_status();
  Result<Place> source = locate_device(src, count, "src");
  if (!source.ok()) return source.take_status();
  for (const void* address : {static_cast<const void*>(dst), src}) {
    if (reinterpret_cast<uintptr_t>(address) % element != 0)
      return {ACL_ERROR_RT_ADDR_UNALIGNED, text(address, " is not a multiple of the element size ", element)};
  }
  const ReduceTask task{destination.value().address, source.value().address, count / element, count, function.value()};
  return submit_with_faults(FaultPoint::kCopy, stream, kReduceKind, &task, sizeof task, task.count);
}

}  // namespace softnpu::api
