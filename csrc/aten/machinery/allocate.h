// Uninitialised tensors on the current device, and checks on tensors that the caller passes as output.
//
//   at::Tensor out = empty(self.sizes(), at::kFloat);
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace torch_npu {

// Contiguous.
at::Tensor empty(at::IntArrayRef sizes, caffe2::TypeMeta dtype);
inline at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype) { return empty(sizes, c10::scalarTypeToTypeMeta(dtype)); }

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, caffe2::TypeMeta dtype);

// With the strides of `like`, which must be non-overlapping and dense.
at::Tensor empty_as(const at::Tensor& like, caffe2::TypeMeta dtype);
inline at::Tensor empty_as(const at::Tensor& like) { return empty_as(like, like.dtype()); }

// With the strides, if there are any; else in the memory format of the options, if they have one; else contiguous.
at::Tensor empty_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

// Gives `out` these sizes, with PyTorch's warning if it had others. Throws PyTorch's error if dtype or device differ.
void resize_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

// Resizes `out` and copies `result` into it, with a cast to its dtype. For out= forms that have computed their result.
at::Tensor& store(const at::Tensor& result, at::Tensor& out);

// The out= form of a function that returns a new tensor. `Arguments` are the types of its parameters:
//   m.impl("mm.dtype_out", TORCH_FN((out_form<mm, const at::Tensor&, const at::Tensor&, at::ScalarType>)));
template <auto kFunction, class... Arguments>
at::Tensor& out_form(Arguments... arguments, at::Tensor& out) {
  const at::Tensor result = kFunction(arguments...);
  resize_output(out, result.sizes(), {}, result.options());
  return out.copy_(result);
}

// Throws PyTorch's error if an in-place call would change the dtype, device or sizes of its tensor.
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);
// Throws PyTorch's error if `self` does not have these sizes.
void check_inplace_sizes(const at::Tensor& self, at::IntArrayRef sizes);
// The same for the broadcast sizes of both.
void check_inplace_broadcast(const at::Tensor& self, const at::Tensor& other);

}  // namespace torch_npu
