// The functions from aclprofInit to aclprofFinalize: paths, settings, configurations, start and stop.
#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "prof/entry.h"
#include "prof/recordings.h"
#include "prof_api.h"

namespace softnpu::prof::api {
namespace {

constexpr size_t kMostPathBytes = 4096;

// The text up to its first zero.
std::string text_of(const char* bytes, size_t length) { return {bytes, strnlen(bytes, length)}; }

}  // namespace

Status aclprofInit(const char* profilerResultPath, size_t length) {
  if (length == 0 || length >= kMostPathBytes) {
    return {ACL_ERROR_INVALID_PARAM, text("argument 'length' is ", length, "; it must be 1 to ", kMostPathBytes - 1)};
  }
  const std::string path = text_of(profilerResultPath, length);
  if (path.empty()) return {ACL_ERROR_INVALID_PARAM, "argument 'profilerResultPath' is empty"};
  return Recordings::get().init(path);
}

Status aclprofFinalize() { return Recordings::get().finalize(); }

Status aclprofSetConfig(aclprofConfigType configType, const char* config, size_t configLength) {
  return Recordings::get().set(configType, text_of(config, configLength));
}

Status aclprofDestroyConfig(const aclprofConfig* profilerConfig) { return Recordings::get().destroy_config(profilerConfig); }

Status aclprofWarmup(const aclprofConfig* profilerConfig) { return Recordings::get().warm_up(profilerConfig); }

Status aclprofStart(const aclprofConfig* profilerConfig) { return Recordings::get().start(profilerConfig); }

Status aclprofStop(const aclprofConfig* profilerConfig) { return Recordings::get().stop(profilerConfig); }

Status aclprofRegisterDeviceCallback() { return {}; }

}  // namespace softnpu::prof::api

namespace {

using softnpu::Result;
using softnpu::Status;
using softnpu::text;

Result<aclprofConfig*> create(const uint32_t* devices, uint32_t count, aclprofAicoreMetrics metrics, const void* events,
                              uint64_t bits) {
  if (devices == nullptr) return softnpu::prof::entry::null_argument("deviceIdList");
  if (events != nullptr)
    return Status(ACL_ERROR_INVALID_PARAM, "argument 'aicoreEvents' must be null: the device has no such events");
  if (bits == 0)
    return Status(ACL_ERROR_INVALID_PARAM, "argument 'dataTypeConfig' is 0; it must contain at least one bit ACL_PROF_*");
  if (softnpu::prof::metrics_name(metrics) == nullptr) {
    return Status(ACL_ERROR_INVALID_PARAM, text("argument 'aicoreMetrics' (", int(metrics),
                                                ") is not an aclprofAicoreMetrics; allowed are 0 to 8, and 255 (none)"));
  }
  uint32_t present = 0;
  if (const aclError code = aclrtGetDeviceCount(&present); code != ACL_SUCCESS)
    return Status(code, "aclrtGetDeviceCount failed, so the devices cannot be checked");
  if (count == 0 || count > present) {
    return Status(ACL_ERROR_INVALID_PARAM, text("argument 'deviceNums' is ", count, "; it must be 1 to ", present));
  }
  aclprofConfig config{.devices = {}, .metrics = metrics, .bits = bits};
  for (const uint32_t device : std::vector(devices, devices + count)) {
    if (device >= present)
      return Status(ACL_ERROR_INVALID_DEVICE, text("there is no device ", device, "; the number of devices is ", present));
    if (std::count(config.devices.begin(), config.devices.end(), int32_t(device)) > 0) {
      return Status(ACL_ERROR_INVALID_PARAM, text("argument 'deviceIdList' has device ", device, " twice"));
    }
    config.devices.push_back(int32_t(device));
  }
  return softnpu::prof::Recordings::get().create_config(std::move(config));
}

}  // namespace

aclprofConfig* aclprofCreateConfig(uint32_t* deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics aicoreMetrics,
                                   const aclprofAicoreEvents* aicoreEvents, uint64_t dataTypeConfig) {
  return softnpu::prof::entry::value_or<aclprofConfig*>(nullptr, "aclprofCreateConfig", [&] {
    return create(deviceIdList, deviceNums, aicoreMetrics, aicoreEvents, dataTypeConfig);
  });
}
