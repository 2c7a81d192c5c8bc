// Histograms, and reductions over segments of one dimension.
#include <ATen/native/Histogram.h>
#include <ATen/native/SegmentReduce.h>

#include "kernels.h"
#include "ops/kernels/bounds.h"
#include "ops/kernels/cpu_stub.h"

namespace softnpu::ops::kernels {
namespace {

void check_bins(const at::Tensor& self, const std::optional<at::Tensor>& weight, at::TensorList edges, const at::Tensor& hist) {
  for (size_t i = 0; i < edges.size(); ++i) {
    TORCH_CHECK(edges[i].dim() == 1 && edges[i].numel() == hist.size(int64_t(i)) + 1, "dimension ", i, " has ",
                hist.size(int64_t(i)), " bins, but edges of shape ", edges[i].sizes());
    TORCH_CHECK(edges[i].dtype() == self.dtype(), "edges of ", edges[i].dtype(), " are given for points of ", self.dtype());
  }
  const bool fits =
      !weight || (weight->sizes() == self.sizes().slice(0, size_t(self.dim()) - 1) && weight->dtype() == self.dtype());
  TORCH_CHECK(fits, "weights of ", weight->dtype(), " and shape ", weight->sizes(), " do not fit points of ", self.dtype(),
              " and shape ", self.sizes());
}

// The lengths must add up to the size of the dimension. The offsets must not decrease, and must stay in it.
void check_segments(const at::Tensor& segments, bool are_offsets, int64_t size) {
  if (are_offsets) return check_offsets(segments, size);
  check_bounds(segments, size + 1);
  check_bounds(segments.sum(-1), size + 1);
}

}  // namespace

void histogramdd(const at::Tensor& self, const std::optional<at::Tensor>& weight, bool density, at::TensorList binEdges,
                 at::Tensor& hist) {
  check_bins(self, weight, binEdges, hist);
  if (hist.numel() == 0) return;  // ATen's kernel would count points that equal an edge in bin -1
  cpu_kernel(at::native::histogramdd_stub)(self, weight, density, hist, binEdges);
}

void histogramdd_linear(const at::Tensor& self, const std::optional<at::Tensor>& weight, bool density, at::TensorList binEdges,
                        bool localSearch, at::Tensor& hist) {
  check_bins(self, weight, binEdges, hist);
  if (hist.numel() == 0) return;
  cpu_kernel(at::native::histogramdd_linear_stub)(self, weight, density, hist, binEdges, localSearch);
}

// `segments` holds the lengths of the segments, or their offsets, which are one more.
void segment_reduce(const at::Tensor& data, const at::Tensor& segments, bool areOffsets, int64_t reduction, int64_t axis,
                    const std::optional<at::Scalar>& initial, at::Tensor& out) {
  check_segments(segments, areOffsets, data.size(axis));
  const auto kind = static_cast<at::native::ReductionType>(reduction);
  out.copy_(
      areOffsets
          ? cpu_kernel(at::native::_segment_reduce_offsets_stub)(kind, data.contiguous(), segments.contiguous(), axis, initial)
          : cpu_kernel(at::native::_segment_reduce_lengths_stub)(kind, data.contiguous(), segments.contiguous(), axis, initial));
}

void segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data, const at::Tensor& segments,
                             bool areOffsets, int64_t reduction, int64_t axis, const std::optional<at::Scalar>& initial,
                             at::Tensor& out) {
  check_segments(segments, areOffsets, data.size(axis));
  const auto kind = static_cast<at::native::ReductionType>(reduction);
  out.copy_(areOffsets
                ? cpu_kernel(at::native::_segment_reduce_offsets_backward_stub)(
                      grad.contiguous(), output.contiguous(), data.contiguous(), kind, segments.contiguous(), axis, initial)
                : cpu_kernel(at::native::_segment_reduce_lengths_backward_stub)(
                      grad.contiguous(), output.contiguous(), data.contiguous(), kind, segments.contiguous(), axis, initial));
}

}  // namespace softnpu::ops::kernels
