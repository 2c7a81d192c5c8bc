// Histograms, and reductions over segments of one dimension.
#include <ATen/native/Histogram.h>
#include <ATen/native/SegmentReduce.h>

#include "kernels.h"
#include "ops/kernels/cpu_stub.h"

namespace softnpu::ops::kernels {

void histogramdd(const at::Tensor& self, const std::optional<at::Tensor>& weight, bool density, at::TensorList binEdges,
                 at::Tensor& hist) {
  cpu_kernel(at::native::histogramdd_stub)(self, weight, density, hist, binEdges);
}

void histogramdd_linear(const at::Tensor& self, const std::optional<at::Tensor>& weight, bool density, at::TensorList binEdges,
                        bool localSearch, at::Tensor& hist) {
  cpu_kernel(at::native::histogramdd_linear_stub)(self, weight, density, hist, binEdges, localSearch);
}

// `segments` holds their lengths or, one more, the offsets between which they lie.
void segment_reduce(const at::Tensor& data, const at::Tensor& segments, bool areOffsets, int64_t reduction, int64_t axis,
                    const std::optional<at::Scalar>& initial, at::Tensor& out) {
  const auto kind = static_cast<at::native::ReductionType>(reduction);
  out.copy_(areOffsets ? cpu_kernel(at::native::_segment_reduce_offsets_stub)(kind, data, segments, axis, initial)
                       : cpu_kernel(at::native::_segment_reduce_lengths_stub)(kind, data, segments, axis, initial));
}

void segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data, const at::Tensor& segments,
                             bool areOffsets, int64_t reduction, int64_t axis, const std::optional<at::Scalar>& initial,
                             at::Tensor& out) {
  const auto kind = static_cast<at::native::ReductionType>(reduction);
  out.copy_(
      areOffsets
          ? cpu_kernel(at::native::_segment_reduce_offsets_backward_stub)(grad, output, data, kind, segments, axis, initial)
          : cpu_kernel(at::native::_segment_reduce_lengths_backward_stub)(grad, output, data, kind, segments, axis, initial));
}

}  // namespace softnpu::ops::kernels
