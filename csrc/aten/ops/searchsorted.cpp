// searchsorted, and the forms of bucketize and isin that take a number. The number is converted to the promoted dtype of number
// and tensor.
#include <ATen/native/BucketizationUtils.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "aten/machinery/outputs.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using Side = std::optional<std::string_view>;

at::Tensor as_tensor(const at::Scalar& number, const at::Tensor& sequence) {
  return at::scalar_tensor(number, sequence.options().dtype(at::result_type(sequence, number)));
}

// The CPU's warning about a tensor that is not contiguous.
void warn_of_copy(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return;
  TORCH_WARN_ONCE(
      "torch.searchsorted(): a tensor is non-contiguous, this will lower the performance due to extra data copy when ",
      "converting non-contiguous tensor to contiguous, please use contiguous tensors if possible. This message will ",
      "only appear once per program.");
}

at::Tensor& searchsorted_out(const at::Tensor& sequence, const at::Tensor& self, bool out_int32, bool right, Side side,
                             const OptionalTensor& sorter, at::Tensor& out) {
  const DeviceScope scope(sequence);
  at::native::searchsorted_pre_check(sequence, self, out, out_int32, right, side, sorter.value_or(at::Tensor()));
  warn_of_copy(sequence);
  warn_of_copy(self);
  prepare_output(out, sized(self.sizes(), sequence.options().dtype(out.dtype())));
  const bool from_right = side.has_value() ? *side == "right" : right;
  call::aclnnSearchSorted(sequence, self, out_int32, from_right, sorter, out);
  return out;
}

at::Tensor searchsorted(const at::Tensor& sequence, const at::Tensor& self, bool out_int32, bool right, Side side,
                        const OptionalTensor& sorter) {
  const DeviceScope scope(sequence);
  at::Tensor out = empty({0}, out_int32 ? at::kInt : at::kLong);
  return searchsorted_out(sequence, self, out_int32, right, side, sorter, out);
}

at::Tensor searchsorted_scalar(const at::Tensor& sequence, const at::Scalar& self, bool out_int32, bool right, Side side,
                               const OptionalTensor& sorter) {
  return searchsorted(sequence, as_tensor(self, sequence), out_int32, right, side, sorter);
}

at::Tensor& searchsorted_scalar_out(const at::Tensor& sequence, const at::Scalar& self, bool out_int32, bool right, Side side,
                                    const OptionalTensor& sorter, at::Tensor& out) {
  return searchsorted_out(sequence, as_tensor(self, sequence), out_int32, right, side, sorter, out);
}

at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  return at::bucketize(as_tensor(self, boundaries), boundaries, out_int32, right);
}

at::Tensor& isin_scalar_out(const at::Scalar& element, const at::Tensor& others, bool assume_unique, bool invert,
                            at::Tensor& out) {
  for (const at::ScalarType dtype : {element.type(), others.scalar_type()}) {
    TORCH_CHECK(!at::isComplexType(dtype) && dtype != at::kBool, "Unsupported input type encountered for isin(): ", dtype);
  }
  return at::isin_out(out, as_tensor(element, others), others, assume_unique, invert);
}

at::Tensor isin_scalar(const at::Scalar& element, const at::Tensor& others, bool assume_unique, bool invert) {
  const DeviceScope scope(others);
  at::Tensor out = empty({}, at::kBool);
  return isin_scalar_out(element, others, assume_unique, invert, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("searchsorted.Tensor", TORCH_FN(searchsorted));
  m.impl("searchsorted.Tensor_out", TORCH_FN(searchsorted_out));
  m.impl("searchsorted.Scalar", TORCH_FN(searchsorted_scalar));
  m.impl("searchsorted.Scalar_out", TORCH_FN(searchsorted_scalar_out));
  m.impl("bucketize.Scalar", TORCH_FN(bucketize_scalar));
  m.impl("isin.Scalar_Tensor", TORCH_FN(isin_scalar));
  m.impl("isin.Scalar_Tensor_out", TORCH_FN(isin_scalar_out));
}

}  // namespace torch_npu
