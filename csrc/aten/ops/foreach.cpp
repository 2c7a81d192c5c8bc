#include "aten/ops/foreach.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_copy_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_norm_native.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "plugin/calls.h"

namespace torch_npu {

bool can_use_one_launch(at::ArrayRef<at::TensorList> lists, at::ArrayRef<at::Scalar> scalars, bool integers_become_floating) {
  const at::ScalarType dtype = lists[0][0].scalar_type();
  const bool any_truth = std::any_of(scalars.begin(), scalars.end(), [](const at::Scalar& scalar) { return scalar.isBoolean(); });
  return lists[0][0].device().type() == kDeviceType && dtype != at::kBool && !at::isComplexType(dtype) && !any_truth &&
         at::native::can_use_fast_route(lists, scalars, integers_become_floating);
}

bool overlaps_in_part(at::TensorList written, at::ArrayRef<at::TensorList> read) {
  for (const at::TensorList& list : read) {
    for (size_t index = 0; index < written.size(); ++index) {
      if (at::get_overlap_status(written[index], list[index]) == at::MemOverlapStatus::Partial) return true;
    }
  }
  return false;
}

std::vector<at::Tensor> empty_as(at::TensorList like) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(like.size());
  for (const at::Tensor& tensor : like) tensors.push_back(empty_as(tensor));
  return tensors;
}

namespace {

using Scalars = at::ArrayRef<at::Scalar>;

// The device takes these factors as a tensor, in float32 for bfloat16. They are copied from pinned memory, so the host does not
// wait.
at::Tensor on_device(Scalars scalars, at::ScalarType dtype) {
  const at::Tensor host = at::empty({static_cast<int64_t>(scalars.size())}, at::TensorOptions(at::kDouble).pinned_memory(true));
  auto* values = host.mutable_data_ptr<double>();
  for (const at::Scalar& scalar : scalars) *values++ = dtype == at::kDouble ? scalar.toDouble() : scalar.to<float>();
  const at::Tensor device = empty(host.sizes(), at::kDouble);
  device.copy_(host, /*non_blocking=*/true);
  return device.to(dtype == at::kBFloat16 ? at::kFloat : dtype);
}

using PointwiseCall = void (*)(at::ITensorListRef, at::ITensorListRef, at::ITensorListRef, const at::Tensor&, at::ITensorListRef);
using Slow = std::vector<at::Tensor> (*)(at::TensorList, at::TensorList, at::TensorList, Scalars);
using SlowInplace = void (*)(at::TensorList, at::TensorList, at::TensorList, Scalars);

template <PointwiseCall kCall, Slow kSlow>
std::vector<at::Tensor> pointwise(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2, Scalars scalars) {
  at::native::check_foreach_api_restrictions(self, tensor1, tensor2, scalars);
  if (!can_use_one_launch({self, tensor1, tensor2}, scalars, true)) return kSlow(self, tensor1, tensor2, scalars);
  const DeviceScope scope(self);
  std::vector<at::Tensor> out = empty_as(self);
  kCall(self, tensor1, tensor2, on_device(scalars, self[0].scalar_type()), out);
  return out;
}

template <PointwiseCall kCall, SlowInplace kSlow>
void pointwise_inplace(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2, Scalars scalars) {
  at::native::check_foreach_api_restrictions(self, tensor1, tensor2, scalars);
  if (!can_use_one_launch({self, tensor1, tensor2}, scalars, true) || overlaps_in_part(self, {tensor1, tensor2})) {
    return kSlow(self, tensor1, tensor2, scalars);
  }
  increment_versions(self);
  const DeviceScope scope(self);
  kCall(self, tensor1, tensor2, on_device(scalars, self[0].scalar_type()), self);
}

template <PointwiseCall kCall, Slow kSlow>
std::vector<at::Tensor> pointwise_packed(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2,
                                         const at::Tensor& scalars) {
  return pointwise<kCall, kSlow>(self, tensor1, tensor2, at::native::convert_tensor_to_scalar_list(scalars, self.size()));
}

template <PointwiseCall kCall, SlowInplace kSlow>
void pointwise_packed_inplace(at::TensorList self, at::TensorList tensor1, at::TensorList tensor2, const at::Tensor& scalars) {
  pointwise_inplace<kCall, kSlow>(self, tensor1, tensor2, at::native::convert_tensor_to_scalar_list(scalars, self.size()));
}

// ---- a 0-dim tensor for a whole list ----

bool fits_as_number(const at::Tensor& other, at::TensorList self) {
  return other.dim() == 0 && other.scalar_type() == self[0].scalar_type() &&
         (other.is_cpu() || other.device() == self[0].device());
}

// Whether a tensor of the list shares memory with `other`: writing it would change the number for the next tensor.
bool is_part_of_one(const at::Tensor& other, at::TensorList self) {
  return std::any_of(self.begin(), self.end(), [&](const at::Tensor& tensor) { return tensor.is_alias_of(other); });
}

using NumberCall = void (*)(at::ITensorListRef, const at::Tensor&, at::ITensorListRef);
using NumberSlow = std::vector<at::Tensor> (*)(at::TensorList, const at::Tensor&);
using NumberSlowInplace = void (*)(at::TensorList, const at::Tensor&);

template <NumberCall kCall, NumberSlow kSlow, bool kFloating>
std::vector<at::Tensor> with_number(at::TensorList self, const at::Tensor& other) {
  at::native::check_foreach_api_restrictions(self);
  if (!fits_as_number(other, self) || !can_use_one_launch({self}, {}, kFloating)) return kSlow(self, other);
  const DeviceScope scope(self);
  std::vector<at::Tensor> out = empty_as(self);
  kCall(self, other, out);
  return out;
}

template <NumberCall kCall, NumberSlowInplace kSlow, bool kFloating>
void with_number_inplace(at::TensorList self, const at::Tensor& other) {
  at::native::check_foreach_api_restrictions(self);
  if (!fits_as_number(other, self) || !can_use_one_launch({self}, {}, kFloating) || is_part_of_one(other, self)) {
    return kSlow(self, other);
  }
  increment_versions(self);
  const DeviceScope scope(self);
  kCall(self, other, self);
}

std::vector<at::Tensor> add_slow(at::TensorList self, const at::Tensor& other) {
  return at::native::foreach_tensor_add_tensor_kernel_slow(self, other, 1);
}

void add_slow_inplace(at::TensorList self, const at::Tensor& other) {
  at::native::foreach_tensor_add_tensor_kernel_slow_(self, other, 1);
}

std::vector<at::Tensor> add_number(at::TensorList self, const at::Tensor& other, const at::Scalar& alpha) {
  if (!alpha.equal(1)) return at::native::foreach_tensor_add_tensor_kernel_slow(self, other, alpha);
  return with_number<call::aclnnForeachAddScalar, add_slow, false>(self, other);
}

void add_number_inplace(at::TensorList self, const at::Tensor& other, const at::Scalar& alpha) {
  if (!alpha.equal(1)) return at::native::foreach_tensor_add_tensor_kernel_slow_(self, other, alpha);
  with_number_inplace<call::aclnnForeachAddScalar, add_slow_inplace, false>(self, other);
}

// ---- norms and copies ----

std::vector<at::Tensor> norm(at::TensorList self, const at::Scalar& ord, std::optional<at::ScalarType> dtype) {
  at::native::check_foreach_api_restrictions(self);
  const at::ScalarType own = self[0].scalar_type();
  const bool any_empty = std::any_of(self.begin(), self.end(), [](const at::Tensor& tensor) { return tensor.numel() == 0; });
  if (any_empty || dtype.value_or(own) != own || !at::isFloatingType(own) || !can_use_one_launch({self}, {}, true)) {
    return at::native::foreach_tensor_norm_slow(self, ord, dtype);
  }
  const DeviceScope scope(self);
  std::vector<at::Tensor> out;
  out.reserve(self.size());
  for (size_t index = 0; index < self.size(); ++index) out.push_back(empty({}, own));
  call::aclnnForeachNorm(self, ord, out);
  return out;
}

void copy_inplace(at::TensorList self, at::TensorList src, bool non_blocking) {
  at::native::check_foreach_api_restrictions(self, src);
  if (!can_use_one_launch({self, src}, {}, false) || overlaps_in_part(self, {src})) {
    return at::native::foreach_tensor_copy_list_kernel_slow_(self, src, non_blocking);
  }
  increment_versions(self);
  const DeviceScope scope(self);
  call::aclnnForeachCopy(src, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_foreach_addcdiv.ScalarList",
         TORCH_FN((pointwise<call::aclnnForeachAddcdivScalarList, at::native::foreach_tensor_addcdiv_scalarlist_slow>)));
  m.impl("_foreach_addcdiv_.ScalarList",
         TORCH_FN((pointwise_inplace<call::aclnnForeachAddcdivScalarList, at::native::foreach_tensor_addcdiv_scalarlist_slow_>)));
  m.impl("_foreach_addcmul.ScalarList",
         TORCH_FN((pointwise<call::aclnnForeachAddcmulScalarList, at::native::foreach_tensor_addcmul_scalarlist_slow>)));
  m.impl("_foreach_addcmul_.ScalarList",
         TORCH_FN((pointwise_inplace<call::aclnnForeachAddcmulScalarList, at::native::foreach_tensor_addcmul_scalarlist_slow_>)));
  m.impl("_foreach_addcdiv.Tensor",
         TORCH_FN((pointwise_packed<call::aclnnForeachAddcdivScalarList, at::native::foreach_tensor_addcdiv_scalarlist_slow>)));
  m.impl(
      "_foreach_addcdiv_.Tensor",
      TORCH_FN(
          (pointwise_packed_inplace<call::aclnnForeachAddcdivScalarList, at::native::foreach_tensor_addcdiv_scalarlist_slow_>)));
  m.impl("_foreach_addcmul.Tensor",
         TORCH_FN((pointwise_packed<call::aclnnForeachAddcmulScalarList, at::native::foreach_tensor_addcmul_scalarlist_slow>)));
  m.impl(
      "_foreach_addcmul_.Tensor",
      TORCH_FN(
          (pointwise_packed_inplace<call::aclnnForeachAddcmulScalarList, at::native::foreach_tensor_addcmul_scalarlist_slow_>)));
  m.impl("_foreach_add.Tensor", TORCH_FN(add_number));
  m.impl("_foreach_add_.Tensor", TORCH_FN(add_number_inplace));
  m.impl("_foreach_mul.Tensor",
         TORCH_FN((with_number<call::aclnnForeachMulScalar, at::native::foreach_tensor_mul_tensor_kernel_slow, false>)));
  m.impl("_foreach_mul_.Tensor",
         TORCH_FN((with_number_inplace<call::aclnnForeachMulScalar, at::native::foreach_tensor_mul_tensor_kernel_slow_, false>)));
  m.impl("_foreach_div.Tensor",
         TORCH_FN((with_number<call::aclnnForeachDivScalar, at::native::foreach_tensor_div_tensor_kernel_slow, true>)));
  m.impl("_foreach_div_.Tensor",
         TORCH_FN((with_number_inplace<call::aclnnForeachDivScalar, at::native::foreach_tensor_div_tensor_kernel_slow_, true>)));
  m.impl("_foreach_norm.Scalar", TORCH_FN(norm));
  m.impl("_foreach_copy_", TORCH_FN(copy_inplace));
}

}  // namespace torch_npu
