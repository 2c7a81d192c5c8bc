#include "hccl/settings.h"

#include <algorithm>
#include <cstring>

#include "hccl/options.h"

namespace softnpu::hccl {
namespace {

// The begin of HcclCommConfig, which all its versions share.
struct ConfigHead {
  uint64_t size;
  uint32_t magic;
  uint32_t version;
};

}  // namespace

Result<CommunicatorSettings> read_settings(const HcclCommConfig* config) {
  CommunicatorSettings settings;
  settings.exec_timeout = std::chrono::seconds(options().exec_timeout);
  settings.buffer_megabytes = options().buffer_megabytes;
  if (config == nullptr) return settings;
  ConfigHead head;
  std::memcpy(&head, config, sizeof head);
  if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD || head.version == 0 || head.size < HCCL_COMM_CONFIG_INFO_BYTES) {
    return Status(HCCL_E_PARA, "argument 'config' was not prepared with HcclCommConfigInit; call that function first");
  }
  HcclCommConfig known;  // a field that the caller's version lacks keeps the value "not set"
  HcclCommConfigInit(&known);
  std::memcpy(&known, config, std::min<size_t>(head.size, sizeof known));
  if (known.hcclBufferSize != HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET) {
    if (known.hcclBufferSize == 0) {
      return Status(HCCL_E_PARA, "hcclBufferSize of argument 'config' is 0; allowed: at least 1 (MiB)");
    }
    settings.buffer_megabytes = known.hcclBufferSize;
  }
  if (known.hcclDeterministic != HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET) {
    if (known.hcclDeterministic > 2) {
      return Status(HCCL_E_PARA,
                    text("hcclDeterministic of argument 'config' is ", known.hcclDeterministic, "; allowed: 0, 1 and 2"));
    }
    settings.deterministic = static_cast<int32_t>(known.hcclDeterministic);
  }
  if (static_cast<uint32_t>(known.hcclExecTimeOut) != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET) {
    if (known.hcclExecTimeOut < 0) {
      return Status(HCCL_E_PARA,
                    text("hcclExecTimeOut of argument 'config' is ", known.hcclExecTimeOut, "; allowed: 0 or more (seconds)"));
    }
    settings.exec_timeout = std::chrono::seconds(known.hcclExecTimeOut);
  }
  settings.name = std::string(known.hcclCommName, strnlen(known.hcclCommName, COMM_NAME_MAX_LENGTH - 1));
  return settings;
}

}  // namespace softnpu::hccl
