// HCCL is not offered: every call throws c10::NotImplementedError. Copy tensors to the CPU and send them with gloo.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10d_npu {

class TORCH_NPU_API ProcessGroupHCCL {
 public:
  c10::intrusive_ptr<c10d::Work> batch_isend_irecv(std::vector<std::string>& op_type, std::vector<at::Tensor>& tensors,
                                                   std::vector<int64_t> remote_rank_list);
};

}  // namespace c10d_npu
