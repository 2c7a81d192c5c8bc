// The public functions for storage formats and for the mask of dropout.
#include <ATen/ops/empty.h>
#include <third_party/op-plugin/op_plugin/include/ops.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "plugin/calls.h"
#include "torch_npu/csrc/core/npu/NPUFormat.h"

namespace at_npu::native {
namespace {

void check_format(int64_t format) {
  static constexpr aclFormat kFormats[] = {ACL_FORMAT_NCHW,
                                           ACL_FORMAT_NHWC,
                                           ACL_FORMAT_ND,
                                           ACL_FORMAT_NC1HWC0,
                                           ACL_FORMAT_FRACTAL_Z,
                                           ACL_FORMAT_NC1HWC0_C04,
                                           ACL_FORMAT_HWCN,
                                           ACL_FORMAT_NDHWC,
                                           ACL_FORMAT_FRACTAL_NZ,
                                           ACL_FORMAT_NCDHW,
                                           ACL_FORMAT_NDC1HWC0,
                                           ACL_FRACTAL_Z_3D,
                                           ACL_FORMAT_NC,
                                           ACL_FORMAT_NCL,
                                           ACL_FORMAT_FRACTAL_NZ_C0_16,
                                           ACL_FORMAT_FRACTAL_NZ_C0_32,
                                           ACL_FORMAT_FRACTAL_NZ_C0_2,
                                           ACL_FORMAT_FRACTAL_NZ_C0_4,
                                           ACL_FORMAT_FRACTAL_NZ_C0_8};
  TORCH_CHECK_VALUE(std::find(std::begin(kFormats), std::end(kFormats), format) != std::end(kFormats), "the NPU has no format ",
                    format, "; give a number of aclFormat, such as ACL_FORMAT_ND (2)");
}

void check_npu(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().type() == torch_npu::kDeviceType, "only a tensor on an npu has a format, but this one is on ",
              tensor.device());
}

at::TensorOptions on_npu(const at::TensorOptions& options) {
  return options.has_device() ? options : options.device(torch_npu::npu_device(torch_npu::current_device()));
}

}  // namespace

int64_t get_npu_format(const at::Tensor& self) {
  check_npu(self);
  if (self.dim() == 4) return ACL_FORMAT_NCHW;
  return self.dim() == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_ND;
}

std::vector<int64_t> get_npu_storage_sizes(const at::Tensor& self) {
  check_npu(self);
  return self.sizes().vec();
}

at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format) {
  check_npu(self);
  check_format(acl_format);
  return acl_format == get_npu_format(self) ? self : self.clone();
}

at::Tensor empty_with_format(c10::IntArrayRef sizes, const c10::TensorOptions& options, int64_t format, bool /*keep_format*/) {
  check_format(format);
  return at::empty(sizes, on_npu(options));
}

at::Tensor empty_with_swapped_memory(c10::IntArrayRef size, std::optional<at::ScalarType> dtype_opt,
                                     std::optional<c10::Device> device_opt) {
  return at::empty(size, on_npu(at::TensorOptions().dtype(dtype_opt).device(device_opt)));
}

at::Tensor npu_dropout_gen_mask(const at::Tensor& self, at::IntArrayRef size, double p, int64_t seed, int64_t offset,
                                std::optional<bool> /*parallel*/, std::optional<bool> /*sync*/) {
  constexpr int64_t kAlignment = 128, kBits = 8;
  TORCH_CHECK(0 <= p && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const torch_npu::DeviceScope scope(self);
  const int64_t elements = c10::multiply_integers(size);
  const at::Tensor mask = torch_npu::empty({(elements + kAlignment - 1) / kAlignment * kAlignment / kBits}, at::ScalarType::Byte);
  torch_npu::call::aclnnDropoutGenMask(size, p, seed, offset, mask);
  return mask;
}

}  // namespace at_npu::native
