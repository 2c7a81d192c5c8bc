// The fast path of shape inference. If the tensors of an operator agree in device, dtype, sizes and dense strides, its output has
// the same sizes and strides, and the shape function is skipped. A rule gives the dtype of the output.
// tests/operators/test_fast_path.py compares every row that has a rule with PyTorch.
//
//   promote    arithmetic: the inputs' dtype; not for bool and complex, for which operators differ
//   same       the same for operators of one tensor
//   floating   the inputs' dtype, floating point only
//   truth      bool; not for complex inputs
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "aten/machinery/allocate.h"
#include "core/device/device.h"

namespace torch_npu {

// Whether `tensor` can be passed to the device as a Scalar without changing the result: it is a Python number, or a 0-dim CPU
// tensor with the dtype of `partner`.
inline bool is_host_scalar(const at::Tensor& tensor, const at::Tensor& partner) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->is_cpu() && impl->dim() == 0 && (impl->is_wrapped_number() || impl->dtype() == partner.dtype());
}

// The value of a tensor for which is_host_scalar() holds.
at::Scalar host_scalar(const at::Tensor& tensor);

namespace fast {

enum class Rule { kPromote, kSame, kFloating, kTruth };

template <Rule kRule>
bool has_dtype(at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return true;
  if constexpr (kRule == Rule::kFloating) return false;
  return at::isIntegralType(dtype, /*includeBool=*/kRule == Rule::kTruth);
}

template <Rule kRule>
caffe2::TypeMeta result_dtype(const at::Tensor& input) {
  return kRule == Rule::kTruth ? caffe2::TypeMeta::Make<bool>() : input.dtype();
}

// Whether the tensor is dense, on an npu, and has the strides that TensorIterator would give to a result. Those include the
// strides of dimensions of size 1.
inline bool is_plain(const c10::TensorImpl* tensor) {
  if (tensor->device().type() != kDeviceType || tensor->layout() != at::kStrided) return false;
  const bool contiguous = tensor->is_contiguous();
  if (!contiguous && !tensor->is_non_overlapping_and_dense()) return false;
  const at::IntArrayRef sizes = tensor->sizes(), strides = tensor->strides();
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (C10_LIKELY(sizes[dim] != 1)) continue;
    if (!contiguous) return false;
    const int64_t expected = dim + 1 == sizes.size() ? 1 : sizes[dim + 1] * strides[dim + 1];
    if (strides[dim] != expected) return false;
  }
  return true;
}

inline bool is_like(const c10::TensorImpl* tensor, const c10::TensorImpl* first) {
  return tensor->device() == first->device() && tensor->dtype() == first->dtype() && tensor->sizes() == first->sizes() &&
         (tensor->strides() == first->strides() || (tensor->is_contiguous() && first->is_contiguous()));
}

template <Rule kRule, class... Tensors>
bool applies(const at::Tensor& first, const Tensors&... others) {
  const c10::TensorImpl* impl = first.unsafeGetTensorImpl();
  return is_plain(impl) && (is_like(others.unsafeGetTensorImpl(), impl) && ...) && has_dtype<kRule>(first.scalar_type());
}

// Whether the scalar is given and does not change the dtype by promotion. Bools never fit, since some operators refuse them.
inline bool fits(const at::Scalar& scalar, at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return !scalar.isComplex() && !scalar.isBoolean();
  return at::isIntegralType(dtype, /*includeBool=*/false) && scalar.type() == at::kLong;
}
inline bool fits(const std::optional<at::Scalar>& scalar, at::ScalarType dtype) {
  return scalar.has_value() && fits(*scalar, dtype);
}
template <class... Scalars>
bool fit(const at::Tensor& tensor, const Scalars&... scalars) {
  return (fits(scalars, tensor.scalar_type()) && ...);
}

// Whether `number` is a Python number that does not change the dtype of `tensor` by promotion.
inline bool is_fitting_number(const at::Tensor& number, const at::Tensor& tensor) {
  const c10::TensorImpl* impl = number.unsafeGetTensorImpl();
  if (!impl->is_wrapped_number() || !impl->is_cpu()) return false;
  const at::ScalarType dtype = tensor.scalar_type();
  if (number.scalar_type() == at::kLong) return at::isFloatingType(dtype) || at::isIntegralType(dtype, /*includeBool=*/false);
  return number.scalar_type() == at::kDouble && at::isFloatingType(dtype);
}

// Whether `out` has the layout of `input` and the rule's dtype, and shares no memory with an input other than the whole tensor.
template <Rule kRule, class... Tensors>
bool can_write(const at::Tensor& out, const at::Tensor& input, const Tensors&... others) {
  const auto apart = [&](const at::Tensor& tensor) {
    return !out.unsafeGetTensorImpl()->storage().is_alias_of(tensor.unsafeGetTensorImpl()->storage()) ||
           (out.storage_offset() == tensor.storage_offset() && out.strides() == tensor.strides() &&
            out.dtype() == tensor.dtype());
  };
  return out.device() == input.device() && out.dtype() == result_dtype<kRule>(input) && out.sizes() == input.sizes() &&
         out.strides() == input.strides() && apart(input) && (apart(others) && ...);
}

}  // namespace fast
}  // namespace torch_npu
