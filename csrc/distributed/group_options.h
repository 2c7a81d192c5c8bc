// Options of a process group as libhccl takes them.
#pragma once

#include "hccl/hccl.h"
#include "torch_npu/csrc/distributed/ProcessGroupHCCL.hpp"

namespace torch_npu::distributed {

using GroupOptions = c10d_npu::ProcessGroupHCCL::Options;

// The structure for a communicator of this name. Throws a c10::ValueError for an unknown key of hccl_config or a bad value; the
// text lists the keys.
HcclCommConfig comm_config(const c10d_npu::HcclConfigMap& config, const std::string& name);

}  // namespace torch_npu::distributed
