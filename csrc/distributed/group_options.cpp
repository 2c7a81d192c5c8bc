#include "distributed/group_options.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

namespace torch_npu::distributed {
namespace {

using Value = c10d_npu::HcclConfigValue;

struct Setting {
  const std::string& key;
  const Value& value;

  uint64_t number(uint64_t most) const {
    const int64_t* const number = std::get_if<int64_t>(&value);
    TORCH_CHECK_VALUE(number != nullptr && *number >= 0 && static_cast<uint64_t>(*number) <= most, "hccl_config: '", key,
                      "' must be a whole number from 0 to ", most);
    return static_cast<uint64_t>(*number);
  }

  template <size_t kSize>
  void copy_to(char (&text)[kSize]) const {
    const std::string* const given = std::get_if<std::string>(&value);
    TORCH_CHECK_VALUE(given != nullptr && given->size() < kSize, "hccl_config: '", key, "' must be a text of at most ", kSize - 1,
                      " bytes");
    std::memcpy(text, given->c_str(), given->size() + 1);
  }
};

using Apply = void (*)(const Setting& setting, HcclCommConfig& config);

const std::map<std::string, Apply>& settings() {
  static const auto* const all = new std::map<std::string, Apply>{
      {"group_name", [](const Setting& s, HcclCommConfig& c) { s.copy_to(c.hcclUdi); }},
      {"hccl_algo", [](const Setting& s, HcclCommConfig& c) { s.copy_to(c.hcclAlgo); }},
      {"hccl_buffer_name", [](const Setting& s, HcclCommConfig& c) { s.copy_to(c.hcclBufferName); }},
      {"hccl_buffer_size",
       [](const Setting& s, HcclCommConfig& c) { c.hcclBufferSize = static_cast<uint32_t>(s.number(1 << 20)); }},
      {"hccl_deterministic",
       [](const Setting& s, HcclCommConfig& c) { c.hcclDeterministic = static_cast<uint32_t>(s.number(2)); }},
      {"hccl_exec_timeout",
       [](const Setting& s, HcclCommConfig& c) { c.hcclExecTimeOut = static_cast<int32_t>(s.number(INT32_MAX)); }},
      {"hccl_job_id", [](const Setting& s, HcclCommConfig& c) { c.hcclJobID = s.number(INT64_MAX); }},
      {"hccl_op_expansion_mode",
       [](const Setting& s, HcclCommConfig& c) { c.hcclOpExpansionMode = static_cast<uint32_t>(s.number(UINT32_MAX)); }},
      {"hccl_retry_enable", [](const Setting& s, HcclCommConfig& c) { s.copy_to(c.hcclRetryEnable); }},
      {"hccl_retry_params", [](const Setting& s, HcclCommConfig& c) { s.copy_to(c.hcclRetryParams); }},
      {"hccl_sdma_qos", [](const Setting& s, HcclCommConfig& c) { c.hcclQos = static_cast<uint32_t>(s.number(UINT32_MAX)); }},
      {"hccl_world_rank_id",
       [](const Setting& s, HcclCommConfig& c) { c.hcclWorldRankID = static_cast<uint32_t>(s.number(UINT32_MAX)); }},
      {"qos_service_level",
       [](const Setting& s, HcclCommConfig& c) { c.hcclRdmaServiceLevel = static_cast<uint32_t>(s.number(7)); }},
      {"qos_traffic_class",
       [](const Setting& s, HcclCommConfig& c) { c.hcclRdmaTrafficClass = static_cast<uint32_t>(s.number(255)); }},
  };
  return *all;
}

std::string keys() {
  std::string text;
  for (const auto& [key, apply] : settings()) text += (text.empty() ? "" : ", ") + key;
  return text;
}

}  // namespace

HcclCommConfig comm_config(const c10d_npu::HcclConfigMap& config, const std::string& name) {
  HcclCommConfig result;
  HcclCommConfigInit(&result);
  const size_t length = std::min(name.size(), sizeof result.hcclCommName - 1);
  std::memcpy(result.hcclCommName, name.data(), length);
  result.hcclCommName[length] = '\0';
  for (const auto& [key, value] : config) {
    const auto setting = settings().find(key);
    TORCH_CHECK_VALUE(setting != settings().end(), "hccl_config: there is no key '", key, "'; the keys are ", keys());
    setting->second({key, value}, result);
  }
  return result;
}

}  // namespace torch_npu::distributed
