#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_embedding_bag.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/searchsorted.h>

#include "kernels.h"
#include "ops/kernels/bounds.h"

namespace softnpu::ops::kernels {
namespace {

constexpr int64_t kRowsPerThread = 1000;

// Adds row i of `gradient` to row indices[i]. The order of the additions does not depend on the number of threads.
template <class Value, class Index>
void add_rows(const at::Tensor& gradient, const at::Tensor& indices, int64_t padding, at::Tensor& out) {
  const int64_t width = out.size(1);
  const Value* from = gradient.const_data_ptr<Value>();
  const Index* index = indices.const_data_ptr<Index>();
  Value* to = out.mutable_data_ptr<Value>();
  at::parallel_for(0, out.size(0), kRowsPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < indices.numel(); ++i) {
      const int64_t row = index[i];
      if (row < begin || row >= end || row == padding) continue;
      for (int64_t k = 0; k < width; ++k) to[row * width + k] += from[i * width + k];
    }
  });
}

// The bag of each index. ATen omits it where its own backward pass does not need it.
at::Tensor bag_of_each(const at::Tensor& indices, const at::Tensor& offsets, int64_t bags) {
  const at::Tensor places = at::arange(indices.numel(), offsets.options());
  return at::searchsorted(offsets.narrow(0, 0, bags), places, /*out_int32=*/false, /*right=*/true).sub_(1);
}

}  // namespace

void embedding(const at::Tensor& weight, const at::Tensor& indices, at::Tensor& out) {
  if (take_rows(weight, indices, /*from_end=*/false, out)) return;
  name_the_index(indices, weight.size(0), [&] {
    if (!out.is_contiguous()) {
      out.copy_(at::embedding(weight, indices));
      return;
    }
    at::Tensor rows = out.view({indices.numel(), weight.size(1)});
    at::index_select_out(rows, weight, 0, indices.reshape({-1}));
  });
}

// A padding index of 2^64 - 1 means no padding. Gradients of half precision are added in float.
void embedding_dense_backward(const at::Tensor& grad, const at::Tensor& indices, uint64_t numWeights, uint64_t paddingIdx,
                              bool scaleGradByFreq, at::Tensor& out) {
  if (at::isReducedFloatingType(grad.scalar_type())) {
    at::Tensor sums = at::empty(out.sizes(), out.options().dtype(at::kFloat));
    embedding_dense_backward(grad.to(at::kFloat), indices, numWeights, paddingIdx, scaleGradByFreq, sums);
    out.copy_(sums);
    return;
  }
  check_bounds(indices, int64_t(numWeights));
  const bool own = !scaleGradByFreq && at::isFloatingType(grad.scalar_type()) && out.is_contiguous() &&
                   out.scalar_type() == grad.scalar_type();
  if (!own) {
    out.copy_(at::embedding_dense_backward(grad, indices, int64_t(numWeights), int64_t(paddingIdx), scaleGradByFreq));
    return;
  }
  out.zero_();
  const at::Tensor gradient = grad.contiguous();
  const at::Tensor places = indices.contiguous();
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "embedding_dense_backward", [&] {
    if (places.scalar_type() == at::kInt) return add_rows<scalar_t, int32_t>(gradient, places, int64_t(paddingIdx), out);
    add_rows<scalar_t, int64_t>(gradient, places, int64_t(paddingIdx), out);
  });
}

// In half precision the weighted rows are rounded before they are added, as a product followed by a sum does.
void embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool scaleGradByFreq,
                   int64_t mode, bool sparse, const std::optional<at::Tensor>& perSampleWeights, bool includeLastOffset,
                   int64_t paddingIdx, at::Tensor& output, at::Tensor& offset2bag, at::Tensor& bagSize, at::Tensor& maxIndices) {
  check_offsets(offsets, indices.numel());
  if (offsets.numel() > 0) {
    const bool is_whole = !includeLastOffset || offsets[-1].item<int64_t>() == indices.numel();
    TORCH_CHECK(offsets[0].item<int64_t>() == 0 && is_whole, "the bags have to hold all of the ", indices.numel(), " indices");
  }
  if (perSampleWeights.has_value() && at::isReducedFloatingType(weight.scalar_type())) {
    check_bounds(indices, weight.size(0));
    const at::Tensor rows = weight.index_select(0, indices).mul_(perSampleWeights->unsqueeze(1));
    if (paddingIdx >= 0) rows.masked_fill_(indices.eq(paddingIdx).unsqueeze(1), 0);
    const at::Tensor each = at::arange(indices.numel(), indices.options());
    embedding_bag(rows, each, offsets, false, mode, false, std::nullopt, includeLastOffset, -1, output, offset2bag, bagSize,
                  maxIndices);
    return;
  }
  const auto [bags, bag_of, sizes, largest] = at::_embedding_bag(weight, indices, offsets, scaleGradByFreq, mode, sparse,
                                                                 perSampleWeights, includeLastOffset, paddingIdx);
  output.copy_(bags);
  offset2bag.copy_(bag_of.numel() == offset2bag.numel() ? bag_of : bag_of_each(indices, offsets, output.size(0)));
  if (sizes.numel() == bagSize.numel()) bagSize.copy_(sizes);
  if (largest.sizes() == maxIndices.sizes()) maxIndices.copy_(largest);
}

void one_hot(const at::Tensor& self, int64_t numClasses, const at::Tensor& onValue, const at::Tensor& offValue, int64_t axis,
             at::Tensor& out) {
  const int64_t dim = axis < 0 ? axis + out.dim() : axis;
  TORCH_CHECK(dim >= 0 && dim < out.dim() && out.size(dim) == numClasses, "out has no dimension ", axis, " of size ", numClasses);
  out.copy_(offValue.reshape({}).expand(out.sizes()));
  out.scatter_(dim, self.to(at::kLong).unsqueeze(dim), onValue.item());
}

}  // namespace softnpu::ops::kernels
