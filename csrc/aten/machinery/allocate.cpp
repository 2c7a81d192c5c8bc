#include "aten/machinery/allocate.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <c10/core/TensorImpl.h>

#include "core/memory/allocator.h"

namespace torch_npu {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor over_new_storage(size_t bytes, caffe2::TypeMeta dtype) {
  if (C10_UNLIKELY(dtype == caffe2::TypeMeta::Make<c10::complex<c10::Half>>())) {
    TORCH_WARN_ONCE("ComplexHalf support is experimental and many operators don't support it yet.");
  }
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, allocate_memory(bytes),
                                                       getNPUAllocator(), /*resizable=*/true);
  return at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), kKeys, dtype);
}

}  // namespace

at::Tensor empty(at::IntArrayRef sizes, caffe2::TypeMeta dtype) {
  at::detail::check_size_nonnegative(sizes);
  at::Tensor tensor = over_new_storage(at::detail::computeStorageNbytesContiguous(sizes, dtype.itemsize()), dtype);
  if (sizes.size() != 1 || sizes[0] != 0) tensor.unsafeGetTensorImpl()->generic_set_sizes_contiguous(sizes);
  return tensor;
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, caffe2::TypeMeta dtype) {
  at::detail::check_size_nonnegative(sizes);
  at::Tensor tensor = over_new_storage(at::detail::computeStorageNbytes(sizes, strides, dtype.itemsize()), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor empty_as(const at::Tensor& like, caffe2::TypeMeta dtype) {
  const c10::TensorImpl* impl = like.unsafeGetTensorImpl();
  at::Tensor tensor = over_new_storage(static_cast<size_t>(impl->numel()) * dtype.itemsize(), dtype);
  if (impl->is_contiguous()) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(impl->sizes());
  } else {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides());
  }
  return tensor;
}

at::Tensor empty_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  if (!strides.empty()) return empty_strided(sizes, strides, options.dtype());
  at::Tensor tensor = empty(sizes, options.dtype());
  const auto format = options.memory_format_opt();
  if (format.has_value() && *format != at::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return tensor;
}

void resize_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ", out.dtype(),
              " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) return;
  if (!strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

at::Tensor& store(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ", sizes,
              " should match");
}

void check_inplace_sizes(const at::Tensor& self, at::IntArrayRef sizes) {
  TORCH_CHECK(self.sizes() == sizes, "output with shape ", self.sizes(), " doesn't match the broadcast shape ", sizes);
}

void check_inplace_broadcast(const at::Tensor& self, const at::Tensor& other) {
  if (self.sizes() != other.sizes()) check_inplace_sizes(self, at::infer_size_dimvector(self.sizes(), other.sizes()));
}

}  // namespace torch_npu
