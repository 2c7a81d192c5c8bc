// Reductions over segments: PyTorch's own functions, whose stubs are device calls.
#include <ATen/native/SegmentReduce.h>
#include <ATen/ops/_segment_reduce_backward_native.h>
#include <ATen/ops/segment_reduce_native.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/outputs.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using OptionalScalar = std::optional<at::Scalar>;

template <bool kOffsets>
at::Tensor segment_reduce(at::native::ReductionType reduction, const at::Tensor& data, const at::Tensor& segments, int64_t axis,
                          const OptionalScalar& initial) {
  const DeviceScope scope(data);
  Sizes sizes(data.sizes());
  sizes[static_cast<size_t>(axis)] = segments.size(axis) - kOffsets;
  at::Tensor out = empty(sizes, data.dtype());
  call::aclnnSoftSegmentReduce(data, segments, kOffsets, static_cast<int64_t>(reduction), axis, initial, out);
  return out;
}

template <bool kOffsets>
at::Tensor segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                                   at::native::ReductionType reduction, const at::Tensor& segments, int64_t axis,
                                   const OptionalScalar& initial) {
  const DeviceScope scope(data);
  at::Tensor out = empty(data.sizes(), data.dtype());
  call::aclnnSoftSegmentReduceBackward(grad, output, data, segments, kOffsets, static_cast<int64_t>(reduction), axis, initial,
                                       out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("segment_reduce", TORCH_FN(at::native::segment_reduce_kernel));
  m.impl("_segment_reduce_backward", TORCH_FN(at::native::_segment_reduce_backward_kernel));
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_stub, &torch_npu::segment_reduce<false>)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_stub, &torch_npu::segment_reduce<true>)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_backward_stub, &torch_npu::segment_reduce_backward<false>)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_backward_stub, &torch_npu::segment_reduce_backward<true>)

}  // namespace at::native
