// Quantised tensors: integers on the device, with one scale and zero point per tensor or per channel. This file makes, reads,
// copies and views them; arithmetic on them is a fallback. ATen stores scales and zero points and checks the calls; the device
// rounds.
#include <ATen/native/quantized/AffineQuantizer.h>
#include <ATen/ops/_empty_affine_quantized.h>
#include <ATen/ops/_empty_affine_quantized_native.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/_empty_per_channel_affine_quantized_native.h>
#include <ATen/ops/dequantize_native.h>
#include <ATen/ops/quantize_per_channel_native.h>
#include <ATen/ops/quantize_per_tensor_dynamic_native.h>
#include <ATen/ops/quantize_per_tensor_native.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/borrowed_kernels.h"
#include "aten/machinery/device_scope.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

bool per_channel(const at::Tensor& self) {
  return self.qscheme() == at::kPerChannelAffine || self.qscheme() == at::kPerChannelAffineFloatQParams;
}

// The same memory as a tensor of integers.
at::Tensor integers(const at::Tensor& self) {
  const auto key = self.is_privateuseone() ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CPU;
  const auto dtype = c10::scalarTypeToTypeMeta(c10::toUnderlying(self.scalar_type()));
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(self.storage()), c10::DispatchKeySet(key), dtype);
  view.unsafeGetTensorImpl()->set_storage_offset(self.storage_offset());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(self.sizes(), self.strides());
  return view;
}

at::Tensor int_repr(const at::Tensor& self) {
  const DeviceScope scope(self);
  return integers(self).clone(self.suggest_memory_format());
}

// ---- quantize and dequantize ----

void quantize_per_tensor(const at::Tensor& numbers, at::Tensor& grid, double scale, int64_t zero_point) {
  const DeviceScope scope(numbers);
  call::aclnnSoftQuantizePerTensor(numbers, scale, zero_point, integers(grid));
}

void dequantize_per_tensor(const at::Tensor& grid, at::Tensor& numbers, double scale, int64_t zero_point) {
  const DeviceScope scope(grid);
  call::aclnnSoftDequantizePerTensor(integers(grid), scale, zero_point, numbers);
}

void quantize_per_channel(const at::Tensor& numbers, at::Tensor& grid, const at::Tensor& scales, const at::Tensor& zero_points,
                          int64_t axis) {
  const DeviceScope scope(numbers);
  call::aclnnSoftQuantizePerChannel(numbers, scales.to(numbers.device()), zero_points.to(numbers.device()), axis, integers(grid));
}

void dequantize_per_channel(const at::Tensor& grid, at::Tensor& numbers, const at::Tensor& scales, const at::Tensor& zero_points,
                            int64_t axis) {
  const DeviceScope scope(grid);
  call::aclnnSoftDequantizePerChannel(integers(grid), scales.to(grid.device()), zero_points.to(grid.device()), axis, numbers);
}

// ---- from integers ----

at::ScalarType grid_of(const at::Tensor& integers) {
  switch (integers.scalar_type()) {
    case at::kChar:
      return at::kQInt8;
    case at::kByte:
      return at::kQUInt8;
    default:
      TORCH_CHECK(integers.scalar_type() == at::kInt, "a quantised tensor is made of int8, uint8 or int32, not ",
                  integers.scalar_type());
      return at::kQInt32;
  }
}

at::Tensor make_per_tensor(const at::Tensor& self, double scale, int64_t zero_point) {
  const at::Tensor made = at::_empty_affine_quantized(self.sizes(), self.options().dtype(grid_of(self)), scale, zero_point,
                                                      self.suggest_memory_format());
  integers(made).copy_(self);
  return made;
}

at::Tensor make_per_channel(const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis) {
  const at::Tensor made = at::_empty_per_channel_affine_quantized(
      self.sizes(), scales, zero_points, axis, self.options().dtype(grid_of(self)), self.suggest_memory_format());
  integers(made).copy_(self);
  return made;
}

// ---- copies ----

// The quantizer of `src`, with its tensors on the device of `self`.
void take_grid(const at::Tensor& self, const at::Tensor& src) {
  if (!per_channel(src)) return at::set_quantizer_(self, at::get_qtensorimpl(src)->quantizer());
  at::set_quantizer_(self, at::make_per_channel_affine_quantizer(src.q_per_channel_scales().to(self.device()),
                                                                 src.q_per_channel_zero_points().to(self.device()),
                                                                 src.q_per_channel_axis(), src.scalar_type()));
}

at::Tensor& copy_quantized(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.is_quantized(), "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize ",
              "to get a float Tensor from a quantized Tensor");
  if (self.is_same(src)) return self;
  if (!src.is_quantized()) {
    TORCH_CHECK(src.scalar_type() == at::kFloat, "Quantized copy only works with kFloat as source Tensor");
    const at::Tensor rounded =
        at::get_qtensorimpl(self)->quantizer()->quantize(src.to(self.device()).expand_as(self).contiguous());
    integers(self).copy_(integers(rounded));
    return self;
  }
  TORCH_CHECK(self.scalar_type() == src.scalar_type(), "Quantized Copy only works with same scalar type");
  TORCH_CHECK(self.qscheme() == at::kPerTensorAffine || !self.has_storage() || self.qscheme() == src.qscheme(),
              "Quantized Copy only works with same qscheme");
  integers(self).copy_(integers(src), non_blocking);
  take_grid(self, src);
  return self;
}

at::Tensor copy_quantized_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor target = dst;
  return copy_quantized(target, self, non_blocking);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("quantize_per_tensor", TORCH_FN(at::native::quantize_per_tensor));
  m.impl("quantize_per_tensor.tensor_qparams", TORCH_FN(at::native::quantize_per_tensor_tensor_qparams));
  m.impl("quantize_per_tensor.tensors", TORCH_FN(at::native::quantize_per_tensor_list_cpu));
  m.impl("quantize_per_tensor_dynamic", TORCH_FN(at::native::quantize_per_tensor_dynamic));
  m.impl("quantize_per_channel", TORCH_FN(at::native::quantize_per_channel));
  m.impl("dequantize.self", TORCH_FN(at::native::dequantize_cpu_or_cuda));
  m.impl("_empty_affine_quantized", TORCH_FN(at::native::empty_affine_quantized_other_backends_stub));
  m.impl("_empty_per_channel_affine_quantized", TORCH_FN(at::native::empty_per_channel_affine_quantized_other_backends_stub));
  m.impl("_make_per_tensor_quantized_tensor", TORCH_FN(make_per_tensor));
  m.impl("_make_per_channel_quantized_tensor", TORCH_FN(make_per_channel));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  constexpr auto kLender = c10::DispatchKey::QuantizedCPU;
  borrow<kLender>(
      m, {"empty.memory_format", "_empty_affine_quantized", "_empty_per_channel_affine_quantized", "empty_quantized",
          "empty_like", "empty_strided", "clone", "fill_.Scalar", "fill_.Tensor", "dequantize.self", "dequantize.tensors"});
  borrow<kLender>(m, {"as_strided", "view", "_reshape_alias", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "unfold",
                      "set_.source_Storage_storage_offset"});
  borrow<kLender>(
      m, {"q_scale", "q_zero_point", "q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis", "qscheme"});
  borrow<kLender>(m, {"eq.Scalar", "eq.Tensor", "ne.Scalar", "ne.Tensor", "lt.Scalar", "lt.Tensor", "le.Scalar", "le.Tensor",
                      "gt.Scalar", "gt.Tensor", "ge.Scalar", "ge.Tensor"});
  m.impl("int_repr", TORCH_FN(int_repr));
  m.impl("copy_", TORCH_FN(copy_quantized));
  m.impl("_copy_from", TORCH_FN(copy_quantized_from));
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_tensor_affine_stub, &torch_npu::quantize_per_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_tensor_affine_stub, &torch_npu::dequantize_per_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_affine_stub, &torch_npu::quantize_per_channel)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_affine_stub, &torch_npu::dequantize_per_channel)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_float_qparams_stub, &torch_npu::quantize_per_channel)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_float_qparams_stub, &torch_npu::dequantize_per_channel)

}  // namespace at::native
