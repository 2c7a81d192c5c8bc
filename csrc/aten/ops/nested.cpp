// Nested tensors of the strided layout: a dense buffer on the device, and sizes, strides and offsets on the host. Most of ATen's
// CPU kernels for them only call operators on the buffer or its parts, so they are registered for npu too. Kernels that read
// memory directly are fallbacks.
#include <ATen/NestedTensorImpl.h>
#include <ATen/ops/_nested_tensor_from_mask_left_aligned_native.h>
#include <ATen/ops/_nested_tensor_from_mask_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_transform_bias_rescale_qkv.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/native_layer_norm.h>
#include <torch/library.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "aten/machinery/borrowed_kernels.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/fallback.h"
#include "aten/machinery/optional_tensor.h"

namespace torch_npu {
namespace {

using Tensors3 = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

bool reads_memory(const c10::OperatorName& name) {
  static const std::unordered_set<std::string> names{"aten::_nested_sum_backward", "aten::sum", "aten::native_layer_norm",
                                                     "aten::native_layer_norm_backward", "aten::_transform_bias_rescale_qkv"};
  return names.count(name.name) != 0;
}

// `sizes` has one row per part, on the host. With `transpose`, heads come before positions in `padded`, and after them in the
// result.
at::Tensor from_padded(const at::Tensor& padded, const at::Tensor& sizes, bool transpose) {
  const DeviceScope scope(padded);
  const at::Tensor dense = transpose ? padded.transpose(1, 2).flatten(2) : padded;
  const auto size = sizes.accessor<int64_t, 2>();
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < sizes.size(0); ++i) {
    at::Tensor part = dense.select(0, i);
    for (int64_t dim = 0; dim < part.dim(); ++dim) part = part.narrow(dim, 0, size[i][dim]);
    parts.push_back(part.flatten());
  }
  const at::Tensor buffer = parts.empty() ? dense.flatten() : at::cat(parts);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, sizes);
}

Tensors3 layer_norm(const at::Tensor& input, at::IntArrayRef shape, const OptionalTensor& weight, const OptionalTensor& bias,
                    double eps) {
  TORCH_CHECK_VALUE(weight.has_value() && bias.has_value(), "NestedTensor layer_norm requires weight and bias");
  TORCH_CHECK(input.is_contiguous(), "NestedTensor layer_norm requires a contiguous tensor");
  const at::native::NestedTensorImpl* nested = at::native::get_nested_tensor_impl(input);
  at::DimVector rows(shape);
  rows.insert(rows.begin(), -1);
  const auto [output, mean, deviation] = at::native_layer_norm(nested->get_buffer().view(rows), shape, weight, bias, eps);
  return {at::detail::make_tensor<at::native::NestedTensorImpl>(output.flatten(), nested->get_nested_sizes()), mean.flatten(),
          deviation.flatten()};
}

Tensors3 transform_bias_rescale_qkv(const at::Tensor& qkv, const at::Tensor& bias, int64_t heads) {
  return at::_transform_bias_rescale_qkv(qkv.to_padded_tensor(0), bias, heads);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  constexpr auto kLender = c10::DispatchKey::NestedTensorCPU;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getRegistrationsForDispatchKey(kLender)) {
    if (!reads_memory(name)) borrow<kLender>(m, {toString(name)});
  }
  m.impl("native_layer_norm", TORCH_FN(layer_norm));
  m.impl("_transform_bias_rescale_qkv", TORCH_FN(transform_bias_rescale_qkv));
  m.impl("sum.dim_IntList", torch::CppFunction::makeFromBoxedFunction<&nested_fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_from_padded", TORCH_FN(from_padded));
  m.impl("_nested_tensor_from_mask", TORCH_FN(at::native::NestedTensor_nested_tensor_from_mask));
  m.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(at::native::NestedTensor_nested_tensor_from_mask_left_aligned));
  m.impl("_nested_view_from_buffer", TORCH_FN(at::native::_nested_view_from_buffer));
}

}  // namespace torch_npu
