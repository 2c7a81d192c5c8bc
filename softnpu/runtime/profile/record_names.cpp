#include "runtime/profile/record_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "acl/acl_base.h"

namespace softnpu {
namespace {

template <size_t kSize>
const char* name_in_table(const std::array<std::pair<int64_t, const char*>, kSize>& names, int64_t number) {
  for (const auto& [key, name] : names) {
    if (key == number) return name;
  }
  return "UNDEFINED";
}

}  // namespace

TaskClass class_of(std::string_view name) {
  if (name.starts_with("aclnn")) return TaskClass::kKernel;
  if (name.starts_with("Hccl")) return TaskClass::kCollective;
  if (name.starts_with("aclrtMemcpy")) return TaskClass::kCopy;
  if (name.starts_with("aclrtMemset")) return TaskClass::kFill;
  if (name == "aclrtStreamWaitEvent" || name == "aclrtValueWait") return TaskClass::kWait;
  if (name == "aclrtRecordEvent" || name == "aclrtResetEvent" || name == "aclrtValueWrite") return TaskClass::kRecord;
  if (name == "aclrtLaunchCallback" || name == "aclrtLaunchHostFunc") return TaskClass::kCallback;
  return TaskClass::kOther;
}

const char* class_name(TaskClass task) {
  constexpr std::array kNames = {"kernel", "copy", "fill", "wait", "record", "collective", "callback", "other"};
  return kNames.at(static_cast<size_t>(task));
}

std::string_view operator_type(std::string_view name) {
  for (const std::string_view prefix : {"aclnnSoft", "aclnnInplace", "aclnn"}) {
    if (name.starts_with(prefix) && name.size() > prefix.size()) return name.substr(prefix.size());
  }
  return name;
}

bool runs_on_ai_cpu(std::string_view name) {
  constexpr std::array kFamilies = {"unique", "nonzero", "sort",     "topk",   "multinomial", "randperm",
                                    "nms",    "histc",   "bincount", "linalg", "cholesky"};
  std::string lower(operator_type(name));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char letter) { return char(std::tolower(letter)); });
  return std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](const char* family) { return lower.find(family) != std::string::npos; });
}

const char* direction_name(uint32_t direction) {
  constexpr std::array kNames = {"", "HtoD", "DtoH", "DtoD", "HtoH"};
  return direction < kNames.size() ? kNames[direction] : "";
}

const char* data_type_name(int64_t data_type) {
  constexpr auto kNames = std::to_array<std::pair<int64_t, const char*>>({
      {ACL_FLOAT, "FLOAT"},
      {ACL_FLOAT16, "FLOAT16"},
      {ACL_INT8, "INT8"},
      {ACL_INT32, "INT32"},
      {ACL_UINT8, "UINT8"},
      {ACL_INT16, "INT16"},
      {ACL_UINT16, "UINT16"},
      {ACL_UINT32, "UINT32"},
      {ACL_INT64, "INT64"},
      {ACL_UINT64, "UINT64"},
      {ACL_DOUBLE, "DOUBLE"},
      {ACL_BOOL, "BOOL"},
      {ACL_STRING, "STRING"},
      {ACL_COMPLEX64, "COMPLEX64"},
      {ACL_COMPLEX128, "COMPLEX128"},
      {ACL_BF16, "DT_BF16"},
      {ACL_INT4, "INT4"},
      {ACL_UINT1, "UINT1"},
      {ACL_COMPLEX32, "COMPLEX32"},
      {ACL_HIFLOAT8, "HIFLOAT8"},
      {ACL_FLOAT8_E5M2, "FLOAT8_E5M2"},
      {ACL_FLOAT8_E4M3FN, "FLOAT8_E4M3FN"},
      {ACL_FLOAT8_E8M0, "FLOAT8_E8M0"},
      {ACL_FLOAT6_E3M2, "FLOAT6_E3M2"},
      {ACL_FLOAT6_E2M3, "FLOAT6_E2M3"},
      {ACL_FLOAT4_E2M1, "FLOAT4_E2M1"},
      {ACL_FLOAT4_E1M2, "FLOAT4_E1M2"},
      {ACL_SOFT_FLOAT8_E4M3FNUZ, "FLOAT8_E4M3FNUZ"},
      {ACL_SOFT_FLOAT8_E5M2FNUZ, "FLOAT8_E5M2FNUZ"},
  });
  return name_in_table(kNames, data_type);
}

const char* format_name(int64_t format) {
  constexpr auto kNames = std::to_array<std::pair<int64_t, const char*>>({
      {ACL_FORMAT_NCHW, "NCHW"},
      {ACL_FORMAT_NHWC, "NHWC"},
      {ACL_FORMAT_ND, "ND"},
      {ACL_FORMAT_NC1HWC0, "NC1HWC0"},
      {ACL_FORMAT_FRACTAL_Z, "FRACTAL_Z"},
      {ACL_FORMAT_NC1HWC0_C04, "NC1HWC0_C04"},
      {ACL_FORMAT_HWCN, "HWCN"},
      {ACL_FORMAT_NDHWC, "NDHWC"},
      {ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
      {ACL_FORMAT_NCDHW, "NCDHW"},
      {ACL_FORMAT_NDC1HWC0, "NDC1HWC0"},
      {ACL_FRACTAL_Z_3D, "FRACTAL_Z_3D"},
      {ACL_FORMAT_NC, "NC"},
      {ACL_FORMAT_NCL, "NCL"},
      {ACL_FORMAT_FRACTAL_NZ_C0_16, "FRACTAL_NZ_C0_16"},
      {ACL_FORMAT_FRACTAL_NZ_C0_32, "FRACTAL_NZ_C0_32"},
      {ACL_FORMAT_FRACTAL_NZ_C0_2, "FRACTAL_NZ_C0_2"},
      {ACL_FORMAT_FRACTAL_NZ_C0_4, "FRACTAL_NZ_C0_4"},
      {ACL_FORMAT_FRACTAL_NZ_C0_8, "FRACTAL_NZ_C0_8"},
  });
  return name_in_table(kNames, format);
}

}  // namespace softnpu
