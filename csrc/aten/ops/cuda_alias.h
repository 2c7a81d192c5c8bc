// "cuda" as another word for npu: while a CudaAlias lives, what asks ATen for a tensor on a CUDA device gets one on the NPU of
// the same index. It is how programs that were written for CUDA run unchanged; torch_npu.contrib.transfer_to_npu is for users.
//
//   const CudaAlias alias;
//   at::ones({2}, at::kCUDA).device();   // npu:0
//
// Operators on tensors do not notice it: only calls that name a CUDA device come here, from wherever they are made: Python,
// TorchScript or C++. Not to be made or destroyed while another thread runs operators. Where torch has a CUDA backend, its
// factories cannot be reached meanwhile.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_npu {

class C10_EXPORT CudaAlias {
 public:
  CudaAlias();
  ~CudaAlias();
  CudaAlias(const CudaAlias&) = delete;
  CudaAlias& operator=(const CudaAlias&) = delete;

 private:
  std::vector<std::unique_ptr<torch::Library>> kernels_;
  std::vector<std::shared_ptr<torch::jit::Operator>> script_operators_;  // those that were exchanged
  const c10::impl::DeviceGuardImplInterface* const guard_of_cuda_;
};

// npu:1 for cuda:1, every other device unchanged.
inline c10::Device without_cuda(c10::Device device) {
  return device.is_cuda() ? c10::Device(c10::DeviceType::PrivateUse1, device.index()) : device;
}

// "npu" for "cuda" and "npu:1" for "cuda:1". Nothing for every other text.
C10_EXPORT std::optional<std::string> name_without_cuda(std::string_view name);

}  // namespace torch_npu
