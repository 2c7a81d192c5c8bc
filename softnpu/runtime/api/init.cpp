// aclInit and functions that need no device.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "api.h"
#include "runtime/base/float16.h"
#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/device/device.h"
#include "runtime/device/process.h"

namespace softnpu::api {
namespace {

// The CANN version whose behaviour the software device follows.
constexpr char kCannVersion[] = "8.5.0";
constexpr std::array kPackages = {"cann", "runtime", "compiler", "hccl", "toolkit", "opp", "opp_kernel", "driver"};

template <size_t kSize>
void set_text(char (&field)[kSize], const char* value) {
  std::snprintf(field, kSize, "%s", value);
}

Status check_package(const char* name) {
  for (const char* package : kPackages) {
    if (std::strcmp(package, name) == 0) return {};
  }
  return {ACL_ERROR_INVALID_PARAM,
          text("package '", name, "' is unknown; it is one of cann, runtime, compiler, hccl, toolkit, opp, opp_kernel, driver")};
}

}  // namespace

Status aclInit(const char* configPath) { return Process::initialise(configPath); }

Status aclFinalize() { return Process::finalise(); }

Status aclFinalizeReference(uint64_t* refCount) {
  Result<uint64_t> left = Process::finalise_reference();
  if (!left.ok()) return left.take_status();
  *refCount = left.value();
  return {};
}

Status aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  *majorVersion = ACL_MAJOR_VERSION;
  *minorVersion = ACL_MINOR_VERSION;
  *patchVersion = ACL_PATCH_VERSION;
  return {};
}

Status aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  if (size_t(name) >= kPackages.size())
    return {ACL_ERROR_INVALID_PARAM, text("package ", int(name), " is unknown; there are 0 to ", kPackages.size() - 1)};
  *version = {};
  set_text(version->version, kCannVersion);
  set_text(version->majorVersion, "8");
  set_text(version->minorVersion, "5");
  set_text(version->releaseVersion, "0");
  set_text(version->patchVersion, "");
  return {};
}

Status aclsysGetVersionStr(char* pkgName, char* versionStr) {
  SOFTNPU_RETURN_IF_ERROR(check_package(pkgName));
  std::snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%s", kCannVersion);
  return {};
}

Status aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
  SOFTNPU_RETURN_IF_ERROR(check_package(pkgName));
  *versionNum = 80500000;
  return {};
}

Status aclrtGetRunMode(aclrtRunMode* runMode) {
  *runMode = ACL_HOST;
  return {};
}

Status aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  static constexpr std::array<aclCannAttr, 3> kAttributes = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16,
                                                             ACL_CANN_ATTR_JIT_COMPILE};
  *cannAttrList = kAttributes.data();
  *num = kAttributes.size();
  return {};
}

Status aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  switch (cannAttr) {
    case ACL_CANN_ATTR_INF_NAN:
      *value = chip_has_inf_nan();
      return {};
    case ACL_CANN_ATTR_BF16:
      *value = soc_figures().has_bf16_and_inf_nan;
      return {};
    case ACL_CANN_ATTR_JIT_COMPILE:
      *value = 0;  // nothing is compiled at run time
      return {};
    default:
      return {ACL_ERROR_INVALID_PARAM, text("attribute ", int(cannAttr), " is unknown; there are 0 to 2")};
  }
}

Status aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  const SocFigures figures = soc_figures();
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = figures.cube_cores;
      return {};
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = figures.vector_cores;
      return {};
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = int64_t(figures.l2_bytes);
      return {};
    default:
      return {ACL_ERROR_INVALID_PARAM, text("device information ", int(deviceInfo), " is unknown; there are 0 to 2")};
  }
}

}  // namespace softnpu::api

const char* aclrtGetSocName() { return softnpu::options().soc_name.c_str(); }

size_t aclDataTypeSize(aclDataType dataType) {
  switch (dataType) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_DOUBLE:
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;  // sub-byte types and unknown types
  }
}

float aclFloat16ToFloat(aclFloat16 value) { return softnpu::float_from_half(value); }

aclFloat16 aclFloatToFloat16(float value) { return softnpu::half_from_float(value); }

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  using softnpu::LogLevel;
  if (func == nullptr || file == nullptr || fmt == nullptr || logLevel < ACL_DEBUG || logLevel > ACL_ERROR) return;
  const auto level = LogLevel(int(LogLevel::kDebug) + int(logLevel));
  if (!softnpu::log_enabled(level)) return;
  char message[1024];
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(message, sizeof message, fmt, arguments);
  va_end(arguments);
  softnpu::app_log(level, {file, int(line), func}, message);
}
