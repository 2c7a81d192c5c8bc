#include "aten/foreach.h"

#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/allocate.h"
#include "aten/device_scope.h"
#include "plugin/calls.h"

namespace torch_npu {

bool can_use_one_launch(at::ArrayRef<at::TensorList> lists, at::ArrayRef<at::Scalar> scalars, bool integers_become_floating) {
  return lists[0][0].device().type() == kDeviceType && at::native::can_use_fast_route(lists, scalars, integers_become_floating);
}

std::vector<at::Tensor> empty_as(at::TensorList like) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(like.size());
  for (const at::Tensor& tensor : like) tensors.push_back(empty_as(tensor));
  return tensors;
}

namespace {

using Scalars = at::ArrayRef<at::Scalar>;

// The device takes these factors as a tensor. They travel through pinned memory, so that nobody waits.
at::Tensor on_device(Scalars scalars, at::ScalarType dtype) {
  const at::Tensor host = at::empty({static_cast<int64_t>(scalars.size())}, at::TensorOptions(at::kDouble).pinned_memory(true));
  auto* values = host.mutable_data_ptr<double>();
  for (const at::Scalar& scalar : scalars) *values++ = scalar.toDouble();
  const at::Tensor device = empty(host.sizes(), at::kDouble);
  device.copy_(host, /*non_blocking=*/true);
  return device.to(dtype);
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
  if (!can_use_one_launch({self, tensor1, tensor2}, scalars, true)) return kSlow(self, tensor1, tensor2, scalars);
  const DeviceScope scope(self);
  kCall(self, tensor1, tensor2, on_device(scalars, self[0].scalar_type()), self);
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
}

}  // namespace torch_npu
