// One launch for lists of tensors: the checks that decide whether it is possible.
//
//   if (!can_use_one_launch({self, other}, {}, false)) return at::native::foreach_tensor_mul_list_kernel_slow(self, other);
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace torch_npu {

// Whether all tensors are on one npu, their dtypes and layouts allow one launch, and no scalar changes the dtype. False for bool
// and complex: the operators on single tensors compute them, or refuse them with the right message.
bool can_use_one_launch(at::ArrayRef<at::TensorList> lists, at::ArrayRef<at::Scalar> scalars, bool integers_become_floating);

// In-place operators call it before they launch, so that autograd knows that the tensors are overwritten. PyTorch has no kernel
// that does this for lists. Throws c10::Error for an inference tensor outside of inference mode.
inline void increment_versions(at::TensorList written) {
  for (const at::Tensor& tensor : written) tensor.unsafeGetTensorImpl()->bump_version();
}

// Whether a tensor of `written` overlaps in part with the tensor at the same position of one of the `read` lists. In-place
// operators refuse such a pair; one launch does not check. Tensors at different positions may share memory: the device handles
// the positions in order.
bool overlaps_in_part(at::TensorList written, at::ArrayRef<at::TensorList> read);

// For each tensor a new one with its dtype and strides.
std::vector<at::Tensor> empty_as(at::TensorList like);

}  // namespace torch_npu
