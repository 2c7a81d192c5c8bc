// Lists of tensors in one launch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace torch_npu {

// Whether the lists are on one npu and alike enough in dtype and layout for one launch, and no scalar changes the dtype. Bool and
// complex never are: what an operator makes of them, or why it refuses them, is the single operator's word.
bool can_use_one_launch(at::ArrayRef<at::TensorList> lists, at::ArrayRef<at::Scalar> scalars, bool integers_become_floating);

// To be called by an in-place operator before it launches: autograd then knows that the tensors are overwritten. PyTorch has no
// kernel that does this for lists. c10::Error for an inference tensor outside of inference mode.
inline void increment_versions(at::TensorList written) {
  for (const at::Tensor& tensor : written) tensor.unsafeGetTensorImpl()->bump_version();
}

// Whether a tensor of `written` shares a part of its memory, but not all of it, with the tensor at the same place of one of the
// `read` lists. In-place operators refuse such a pair; one launch would not look. Tensors at different places may share memory:
// the device takes the places in order.
bool overlaps_in_part(at::TensorList written, at::ArrayRef<at::TensorList> read);

// One new tensor like each.
std::vector<at::Tensor> empty_as(at::TensorList like);

}  // namespace torch_npu
