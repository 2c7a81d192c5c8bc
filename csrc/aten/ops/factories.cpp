// Uninitialised tensors, ranges, windows, triangle indices, and operators on whole storages.
#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <torch/library.h>

#include <cmath>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "core/memory/allocator.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using OptionalDtype = std::optional<at::ScalarType>;
using OptionalLayout = std::optional<at::Layout>;
using OptionalDevice = std::optional<at::Device>;

void check_options(OptionalLayout layout, OptionalDevice device, std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "npu tensors are strided, but layout ", *layout, " is asked for");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  if (device.has_value() && device->has_index()) checked_device(device->index());
}

const at::Tensor& filled_if_deterministic(const at::Tensor& tensor) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(const_cast<at::Tensor&>(tensor));
  }
  return tensor;
}

at::Tensor empty_memory_format(at::IntArrayRef size, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                               std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  check_options(layout, device, pin_memory);
  const DeviceScope scope(device);
  const at::Tensor tensor = empty(size, c10::dtype_or_default(dtype));
  if (format.value_or(at::MemoryFormat::Contiguous) != at::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return filled_if_deterministic(tensor);
}

at::Tensor empty_strided_of(at::IntArrayRef size, at::IntArrayRef stride, OptionalDtype dtype, OptionalLayout layout,
                            OptionalDevice device, std::optional<bool> pin_memory) {
  check_options(layout, device, pin_memory);
  const DeviceScope scope(device);
  return filled_if_deterministic(empty_strided(size, stride, c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype))));
}

// A tensor of zeros that owns no memory; forward-mode derivatives use it.
at::Tensor efficient_zero_tensor(at::IntArrayRef size, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                                 std::optional<bool> pin_memory) {
  check_options(layout, device, pin_memory);
  const DeviceScope scope(device);
  at::native::ZeroTensorAllocator allocator(npu_device(current_device()));
  const c10::DispatchKeySet keys =
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype), std::nullopt);
}

// ---- ranges ----

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const DeviceScope scope(out);
  int64_t size = 0;
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "arange_npu",
                             [&] { size = at::native::compute_arange_size<scalar_t>(start, end, step); });
  if (out.numel() != size) {
    if (out.numel() > 0) {
      TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
                 " which does not match the computed number of elements ", size, ". Note that this may occur as a result of ",
                 "rounding error. The out tensor will be resized to a tensor of shape (", size, ",).");
    }
    out.resize_({size});
  }
  call::aclnnArange(start, end, step, out);
  return out;
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const DeviceScope scope(out);
  const double first = start.toDouble(), last = end.toDouble(), by = step.toDouble();
  at::native::arange_check_bounds(start, end, step);
  const auto size = static_cast<int64_t>((last - first) / by + 1);
  if (out.numel() != size) out.resize_({size});
  call::aclnnRange(start, end, step, out);
  return out;
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const DeviceScope scope(out);
  if (out.numel() != steps) out.resize_({steps});
  if (steps > 0) call::aclnnLinspace(start, end, steps, out);
  return out;
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const DeviceScope scope(out);
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 1 && out.scalar_type() == at::kBool) return out.fill_(std::pow(base, start.toDouble()));  // as CPU does
  if (steps > 0) call::aclnnLogSpace(start, end, steps, base, out);
  return out;
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  const at::ScalarType dtype = out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isBarebonesUnsignedType(dtype) && dtype != at::kComplexHalf, "\"eye\" not implemented for '",
                              dtype, "'");
  const DeviceScope scope(out);
  out.resize_({n, m});
  call::aclnnEye(n, m, out);
  return out;
}

at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

// ---- windows ----

at::Tensor kaiser_window(int64_t length, bool periodic, double beta, OptionalDtype dtype, OptionalLayout layout,
                         OptionalDevice device, std::optional<bool> pin_memory) {
  check_options(layout, device, pin_memory);
  TORCH_CHECK(length >= 0, "kaiser_window requires non-negative window_length, got window_length=", length);
  const at::ScalarType type = c10::dtype_or_default(dtype);
  TORCH_CHECK(at::isFloatingType(type), "kaiser_window expects floating point dtypes, got: ", type);
  const DeviceScope scope(device);
  const at::Tensor out = empty({length}, type);
  call::aclnnSoftKaiserWindow(length, periodic, beta, out);
  return out;
}

constexpr double kDefaultBeta = 12;

at::Tensor kaiser_window_periodic(int64_t length, bool periodic, OptionalDtype dtype, OptionalLayout layout,
                                  OptionalDevice device, std::optional<bool> pin_memory) {
  return kaiser_window(length, periodic, kDefaultBeta, dtype, layout, device, pin_memory);
}

at::Tensor kaiser_window_default(int64_t length, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                                 std::optional<bool> pin_memory) {
  return kaiser_window(length, /*periodic=*/true, kDefaultBeta, dtype, layout, device, pin_memory);
}

// ---- triangle indices ----

using IndicesCall = void (*)(int64_t row, int64_t col, int64_t offset, const at::Tensor& out);

at::Tensor triangle(IndicesCall call, int64_t count, int64_t row, int64_t col, int64_t offset, OptionalDtype dtype,
                    OptionalDevice device) {
  const at::ScalarType type = dtype.value_or(at::kLong);
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kLong || type == at::kInt, "\"indices of a triangle\" not implemented for '", type,
                              "'");
  const DeviceScope scope(device);
  const at::Tensor out = empty({2, count}, type);
  call(row, col, offset, out);
  return out;
}

at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, OptionalDtype dtype, OptionalLayout layout,
                        OptionalDevice device, std::optional<bool> pin_memory) {
  at::native::check_args(row, col, layout);
  check_options(layout, device, pin_memory);
  return triangle(call::aclnnSoftTrilIndices, at::native::get_tril_size(row, col, offset), row, col, offset, dtype, device);
}

at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, OptionalDtype dtype, OptionalLayout layout,
                        OptionalDevice device, std::optional<bool> pin_memory) {
  at::native::check_args(row, col, layout);
  check_options(layout, device, pin_memory);
  const int64_t count = row * col - at::native::get_tril_size(row, col, offset - 1);
  return triangle(call::aclnnSoftTriuIndices, count, row, col, offset, dtype, device);
}

// ---- memory ----

void record_stream(at::Tensor& self, c10::Stream stream) { recordStream(self.storage().data_ptr(), NPUStream(stream)); }

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set()) || self.layout() == from.layout();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided_of));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zero_tensor));
  m.impl("arange.start_out", TORCH_FN(arange_out));
  m.impl("range.out", TORCH_FN(range_out));
  m.impl("linspace.out", TORCH_FN(linspace_out));
  m.impl("logspace.out", TORCH_FN(logspace_out));
  m.impl("eye.out", TORCH_FN(eye_out));
  m.impl("eye.m_out", TORCH_FN(eye_m_out));
  m.impl("kaiser_window", TORCH_FN(kaiser_window_default));
  m.impl("kaiser_window.periodic", TORCH_FN(kaiser_window_periodic));
  m.impl("kaiser_window.beta", TORCH_FN(kaiser_window));
  m.impl("tril_indices", TORCH_FN(tril_indices));
  m.impl("triu_indices", TORCH_FN(triu_indices));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace torch_npu
