// Uninitialised tensors on the current device, and the checks on tensors that a caller gave to be written.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace torch_npu {

// Contiguous.
at::Tensor empty(at::IntArrayRef sizes, caffe2::TypeMeta dtype);
inline at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype) { return empty(sizes, c10::scalarTypeToTypeMeta(dtype)); }

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, caffe2::TypeMeta dtype);

// The layout of `like`, which is non-overlapping and dense.
at::Tensor empty_as(const at::Tensor& like, caffe2::TypeMeta dtype);
inline at::Tensor empty_as(const at::Tensor& like) { return empty_as(like, like.dtype()); }

// As a shape function asks for it: strides if any, else a memory format if any, else contiguous.
at::Tensor empty_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

// Gives `out` the wanted shape (with PyTorch's warning when it had another one) or says in PyTorch's words why it cannot.
void resize_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

// The end of an out= form that has its result already: cast to the dtype of `out`, copied to its device.
at::Tensor& store(const at::Tensor& result, at::Tensor& out);

// An in-place call cannot change its tensor's dtype, device or sizes.
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);
// Nor can that of an operator that broadcasts make its tensor larger.
void check_inplace_broadcast(const at::Tensor& self, const at::Tensor& other);

}  // namespace torch_npu
