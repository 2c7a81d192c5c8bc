// The settings of one communicator.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "hccl/errors.h"
#include "hccl/hccl.h"

namespace softnpu::hccl {

struct CommunicatorSettings {
  std::string name;                      // empty: derived from the secret of the communicator
  std::chrono::seconds exec_timeout{0};  // 0: no limit
  uint32_t buffer_megabytes = 0;         // the most shared memory of one host
  int32_t deterministic = 0;             // stored for HcclGetCommConfig; results are deterministic with every value
};

// The values of the environment, overridden by the fields that `config` (may be null) sets. HCCL_E_PARA for a structure that
// HcclCommConfigInit did not prepare, and for a field with a bad value. Fields that this library does not use are ignored.
Result<CommunicatorSettings> read_settings(const HcclCommConfig* config);

}  // namespace softnpu::hccl
