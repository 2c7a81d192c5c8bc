// Histograms: PyTorch's own functions, whose stubs are device calls.
#include <ATen/native/Histogram.h>
#include <ATen/ops/_histogramdd_bin_edges_native.h>
#include <ATen/ops/_histogramdd_from_bin_cts_native.h>
#include <ATen/ops/_histogramdd_from_bin_tensors_native.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/histogram_native.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using OptionalRange = std::optional<at::ArrayRef<double>>;

void histogramdd(const at::Tensor& self, const OptionalTensor& weight, bool density, at::Tensor& hist,
                 const at::TensorList& edges) {
  const DeviceScope scope(self);
  call::aclnnSoftHistogramdd(self, weight, density, edges, hist);
}

void histogramdd_linear(const at::Tensor& self, const OptionalTensor& weight, bool density, at::Tensor& hist,
                        const at::TensorList& edges, bool local_search) {
  const DeviceScope scope(self);
  call::aclnnSoftHistogramddLinear(self, weight, density, edges, local_search, hist);
}

std::vector<double> to_host(const at::Tensor& numbers) {
  const at::Tensor copy = numbers.to(at::kCPU, at::kDouble);
  return {copy.const_data_ptr<double>(), copy.const_data_ptr<double>() + copy.numel()};
}

void outer_edges(const at::Tensor& self, const int64_t /*dimensions*/, std::vector<double>& left, std::vector<double>& right) {
  const auto [least, most] = at::aminmax(self, /*dim=*/0);
  left = to_host(least);
  right = to_host(most);
}

using ByCount = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, int64_t, OptionalRange, const OptionalTensor&, bool);
using ByEdges = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const OptionalTensor&, bool);
using ByCountOut = std::tuple<at::Tensor&, at::Tensor&>(const at::Tensor&, int64_t, OptionalRange, const OptionalTensor&, bool,
                                                        at::Tensor&, at::Tensor&);
using ByEdgesOut = std::tuple<at::Tensor&, at::Tensor&>(const at::Tensor&, const at::Tensor&, const OptionalTensor&, bool,
                                                        at::Tensor&, at::Tensor&);
using ByCounts = at::Tensor(const at::Tensor&, at::IntArrayRef, OptionalRange, const OptionalTensor&, bool);
using ByAllEdges = at::Tensor(const at::Tensor&, at::TensorList, const OptionalTensor&, bool);

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("histogram.bin_ct", TORCH_FN(static_cast<ByCount*>(at::native::histogram)));
  m.impl("histogram.bins_tensor", TORCH_FN(static_cast<ByEdges*>(at::native::histogram)));
  m.impl("histogram.bin_ct_out", TORCH_FN(static_cast<ByCountOut*>(at::native::histogram_out)));
  m.impl("histogram.bins_tensor_out", TORCH_FN(static_cast<ByEdgesOut*>(at::native::histogram_out)));
  m.impl("_histogramdd_bin_edges", TORCH_FN(at::native::histogramdd_bin_edges));
  m.impl("_histogramdd_from_bin_cts", TORCH_FN(static_cast<ByCounts*>(at::native::_histogramdd)));
  m.impl("_histogramdd_from_bin_tensors", TORCH_FN(static_cast<ByAllEdges*>(at::native::_histogramdd)));
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_stub, &torch_npu::histogramdd)
REGISTER_PRIVATEUSE1_DISPATCH(histogramdd_linear_stub, &torch_npu::histogramdd_linear)
REGISTER_PRIVATEUSE1_DISPATCH(histogram_select_outer_bin_edges_stub, &torch_npu::outer_edges)

}  // namespace at::native
