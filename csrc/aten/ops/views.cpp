// Views, storages and shuffled pixels: PyTorch's own functions for views; hand-written ones where a storage may have to grow.
#include <ATen/EmptyTensor.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/_lazy_clone_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "core/memory/allocator.h"
#include "core/memory/storage.h"

namespace torch_npu {
namespace {

void grow_storage(const at::Tensor& self, size_t bytes) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const c10::Storage& storage = impl->unsafe_storage();
  if (!storage) {
    impl->set_storage_keep_dtype(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                                       allocate_memory(bytes), getNPUAllocator(), true));
  } else if (bytes > storage.nbytes()) {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const size_t old_bytes = impl->unsafe_storage() ? impl->unsafe_storage().nbytes() : 0;
  if (self.sizes() != size) {
    const DeviceScope scope(self);
    impl->set_sizes_contiguous(size);
    if (self.numel() > 0) {
      grow_storage(self, at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(), self.storage_offset()));
    }
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(old_bytes));
  }
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  const DeviceScope scope(self);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  // The size in bytes is computed from the strides as given, which refuses negative ones; set_sizes_and_strides() would replace
  // them.
  size_t bytes = 0;
  if (stride.data() == nullptr) {
    impl->set_sizes_contiguous(size);
    bytes = at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(), offset);
  } else {
    impl->set_sizes_and_strides(size, stride);
    bytes = at::detail::computeStorageNbytes(size, stride, self.dtype().itemsize(), offset);
  }
  if (self.numel() > 0) grow_storage(self, bytes);
  return self;
}

at::Tensor& set_empty_(at::Tensor& self) {
  const DeviceScope scope(self);
  const at::Storage storage(
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0, allocate_memory(0), getNPUAllocator(), true));
  return self.set_(storage, 0, {0}, {});
}

at::Tensor lazy_clone(const at::Tensor& self) {
  make_shareable(self.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks());
  return at::native::_lazy_clone(self);
}

at::Tensor narrowed(const at::Tensor& self, int64_t dim, int64_t start, int64_t length) {
  TORCH_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK(dim < self.dim(), "Dimension out of range (expected to be in range of [", -self.dim(), ", ", self.dim() - 1,
              "], but got ", dim, ")");
  const int64_t size = self.size(dim);
  if (start != size) start = at::maybe_wrap_dim(start, size);
  TORCH_CHECK(length >= 0 && start <= size - length, "start (", start, ") + length (", length, ") exceeds dimension size (", size,
              ").");
  return self.narrow(dim, start, length);
}

at::Tensor narrow_copy(const at::Tensor& self, int64_t dim, int64_t start, int64_t length) {
  return narrowed(self, dim, start, length).clone(at::MemoryFormat::Contiguous);
}

at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, int64_t start, int64_t length, at::Tensor& out) {
  return store(narrowed(self, dim, start, length), out);
}

// ---- pixels in another order: the CPU's kernels lack some types ----

void check_shuffled(const at::Tensor& self, const char* name) {
  const at::ScalarType dtype = self.scalar_type();
  const bool is_offered = dtype != at::kComplexHalf && !c10::isFloat8Type(dtype) && !c10::isBarebonesUnsignedType(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(is_offered || self.numel() == 0, '"', name, "\" not implemented for '", dtype, "'");
}

at::Tensor pixel_shuffle(const at::Tensor& self, int64_t factor) {
  at::Tensor result = at::native::math_pixel_shuffle(self, factor);
  check_shuffled(self, "pixel_shuffle");
  return result;
}

at::Tensor pixel_unshuffle(const at::Tensor& self, int64_t factor) {
  at::Tensor result = at::native::math_pixel_unshuffle(self, factor);
  check_shuffled(self, "pixel_unshuffle");
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_lazy_clone", TORCH_FN(lazy_clone));
  m.impl("narrow_copy", TORCH_FN(narrow_copy));
  m.impl("narrow_copy.out", TORCH_FN(narrow_copy_out));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(at::native::view)));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("pixel_shuffle", TORCH_FN(pixel_shuffle));
  m.impl("pixel_unshuffle", TORCH_FN(pixel_unshuffle));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage", TORCH_FN(static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_)));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", TORCH_FN(set_empty_));
}

}  // namespace torch_npu
