// Devices: selecting, synchronising and querying them.
#include "runtime/device/device.h"

#include <unistd.h>

#include <cstring>

#include "api.h"
#include "runtime/base/options.h"
#include "runtime/device/process.h"
#include "runtime/memory/ledger.h"
#include "runtime/stream/copy.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {
namespace {

Result<Device*> current_device() {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  return &device_of(*context.value());
}

Status reset_device(int32_t number, bool force) {
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  Result<Device*> device = find_device(number);
  if (!device.ok()) return device.take_status();
  return device.value()->release_primary(force);
}

struct OverflowTask {
  Device* device;
  void* output;  // null: reset
};

constexpr size_t kOverflowBytes = 64;

constexpr SoftnpuTaskKind kOverflowKind = {.name = "aclrtGetOverflowStatus",
                                           .run = [](void* payload, char*) -> aclError {
                                             const auto& task = *static_cast<OverflowTask*>(payload);
                                             if (task.output == nullptr) {
                                               task.device->overflowed.store(false, std::memory_order_release);
                                               return ACL_SUCCESS;
                                             }
                                             const uint64_t status = task.device->overflowed.load(std::memory_order_acquire);
                                             std::memset(task.output, 0, kOverflowBytes);
                                             std::memcpy(task.output, &status, sizeof status);
                                             return ACL_SUCCESS;
                                           },
                                           .release = nullptr,
                                           .ready = nullptr,
                                           .flags = 0,
                                           .visit =
                                               [](const void* payload, SoftnpuAccessVisitor visitor, void* context) {
                                                 const auto& task = *static_cast<const OverflowTask*>(payload);
                                                 if (task.output == nullptr) return;
                                                 visitor(context, task.output, kOverflowBytes, SOFTNPU_ACCESS_WRITES);
                                               }};

}  // namespace

Status aclrtSetDevice(int32_t deviceId) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  Result<Ref<Context>> context = device.value()->retain_primary();
  if (!context.ok()) return context.take_status();
  set_current_context(context.value());
  return {};
}

Status aclrtResetDevice(int32_t deviceId) { return reset_device(deviceId, /*force=*/false); }

Status aclrtResetDeviceForce(int32_t deviceId) { return reset_device(deviceId, /*force=*/true); }

Status aclrtGetDevice(int32_t* deviceId) {
  Result<Device*> device = current_device();
  if (!device.ok()) return device.take_status();
  *deviceId = device.value()->number();
  return {};
}

Status aclrtGetDeviceCount(uint32_t* count) {
  *count = uint32_t(options().visible_devices.size());
  return {};
}

Status aclrtSynchronizeDevice() { return api::aclrtSynchronizeDeviceWithTimeout(-1); }

Status aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  Result<Deadline> deadline = Deadline::after_milliseconds(timeout);
  if (!deadline.ok()) return deadline.take_status();
  Result<Device*> device = current_device();
  if (!device.ok()) return device.take_status();
  return device.value()->synchronize(deadline.value());
}

Status aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
  Result<Device*> found = find_device(deviceId);
  if (!found.ok()) return found.take_status();
  const Device& device = *found.value();
  const bool is_busy = device.is_busy();
  const Usage usage = ledger().usage(device.host_number());
  utilizationInfo->cubeUtilization = is_busy ? 100 : 0;
  utilizationInfo->vectorUtilization = is_busy ? 100 : 0;
  utilizationInfo->aicpuUtilization = 0;
  utilizationInfo->memoryUtilization = int32_t(usage.device * 100 / options().device_memory);
  return {};
}

Status aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
  return {};
}

Status aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  Result<Device*> device = current_device();
  if (!device.ok()) return device.take_status();
  if (mode != ACL_RT_OVERFLOW_MODE_SATURATION && mode != ACL_RT_OVERFLOW_MODE_INFNAN) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("mode ", int(mode), " is unknown; it is 0 (saturate) or 1 (inf and nan)")};
  }
  device.value()->set_saturation_mode(mode);
  return {};
}

Status aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  Result<Device*> device = current_device();
  if (!device.ok()) return device.take_status();
  *mode = device.value()->saturation_mode();
  return {};
}

Status aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  for (int32_t number : {deviceId, peerDeviceId}) {
    if (Result<Device*> device = find_device(number); !device.ok()) return device.take_status();
  }
  *canAccessPeer = deviceId != peerDeviceId;
  return {};
}

Status aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  Result<Device*> device = current_device();
  if (!device.ok()) return device.take_status();
  if (Result<Device*> peer = find_device(peerDeviceId); !peer.ok()) return peer.take_status();
  if (flags != 0) return {ACL_ERROR_RT_PARAM_INVALID, text("flags ", flags, " must be 0")};
  if (peerDeviceId == device.value()->number()) return {ACL_ERROR_RT_INVALID_DEVICEID, "a device is no peer of itself"};
  device.value()->peers.fetch_or(uint64_t{1} << peerDeviceId, std::memory_order_relaxed);
  return {};
}

Status aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  Result<Device*> device = current_device();
  if (!device.ok()) return device.take_status();
  if (Result<Device*> peer = find_device(peerDeviceId); !peer.ok()) return peer.take_status();
  const uint64_t bit = uint64_t{1} << peerDeviceId;
  if (!(device.value()->peers.fetch_and(~bit, std::memory_order_relaxed) & bit)) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("access to device ", peerDeviceId, " was not enabled")};
  }
  return {};
}

Status aclrtGetOverflowStatus(void* outputAddr, size_t outputSize, Stream& stream) {
  if (outputSize < kOverflowBytes)
    return {ACL_ERROR_RT_PARAM_INVALID, text("the status needs ", kOverflowBytes, " bytes, not ", outputSize)};
  Result<Place> place = locate_device(outputAddr, kOverflowBytes, "outputAddr");
  if (!place.ok()) return place.take_status();
  const OverflowTask task{&device_of(stream), place.value().address};
  return stream.submit(kOverflowKind, &task, sizeof task, 0);
}

Status aclrtResetOverflowStatus(Stream& stream) {
  const OverflowTask task{&device_of(stream), nullptr};
  return stream.submit(kOverflowKind, &task, sizeof task, 0);
}

Status aclrtDeviceGetBareTgid(int32_t* pid) {
  *pid = getpid();
  return {};
}

Status aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  char host[48] = {};
  gethostname(host, sizeof host - 1);
  // Equal in all processes of the host.
  const uint64_t host_hash = std::hash<std::string_view>{}(host);
  const uint64_t number = 0x50554E5446300000 + uint64_t(device.value()->host_number());
  std::memcpy(uuid->bytes, &host_hash, sizeof host_hash);
  std::memcpy(uuid->bytes + sizeof host_hash, &number, sizeof number);
  return {};
}

Status aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  const SocFigures figures = soc_figures();
  switch (attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      *value = sysconf(_SC_NPROCESSORS_ONLN);
      return {};
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      *value = figures.cube_cores;
      return {};
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      *value = figures.vector_cores;
      return {};
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      *value = int64_t(options().device_memory);
      return {};
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      *value = int64_t(figures.l2_bytes);
      return {};
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      *value = device.value()->host_number();
      return {};
    case ACL_DEV_ATTR_SMP_ID:
    case ACL_DEV_ATTR_SUPER_POD_ID:
    case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
      *value = 0;
      return {};
    case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
      *value = device.value()->host_number();
      return {};
    case ACL_DEV_ATTR_IS_VIRTUAL:
      *value = 1;
      return {};
    case ACL_DEV_ATTR_NPU_ARCH:
      *value = figures.npu_arch;
      return {};
    default:
      return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              text("attribute ", int(attr), " has no meaning on the software device or is unknown")};
  }
}

Status aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* const logicDevId) {
  Result<Device*> device = find_device(userDevid);
  if (!device.ok()) return device.take_status();
  *logicDevId = device.value()->host_number();
  return {};
}

Status aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  return device.value()->abort(timeout == 0 ? Deadline::never() : Deadline::after(std::chrono::milliseconds(timeout)));
}

Status aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* /*memUceInfoArray*/, size_t /*arraySize*/, size_t* retSize) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  *retSize = 0;  // the host reports errors of its memory
  return {};
}

Status aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo* /*memUceInfoArray*/, size_t arraySize) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  if (arraySize == 0) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, "the device has no damaged memory to repair"};
}

Status aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo* errorInfo) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  std::memset(errorInfo, 0, sizeof *errorInfo);
  errorInfo->errorType = ACL_RT_NO_ERROR;
  return {};
}

Status aclrtRepairError(int32_t deviceId, const aclrtErrorInfo* errorInfo) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  if (errorInfo->errorType == ACL_RT_NO_ERROR) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, "the device has no hardware error to repair"};
}

Status aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_core_kind(type));
  *value = device.value()->core_limits[type].load(std::memory_order_relaxed);
  return {};
}

Status aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_core_limit(type, value));
  device.value()->core_limits[type].store(value, std::memory_order_relaxed);
  return {};
}

Status aclrtResetDeviceResLimit(int32_t deviceId) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  device.value()->reset_core_limits();
  return {};
}

Status aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority) {
  *leastPriority = kLowestPriority;
  *greatestPriority = kHighestPriority;
  return {};
}

}  // namespace softnpu::api
