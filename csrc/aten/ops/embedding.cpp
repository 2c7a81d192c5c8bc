// Gradients of embeddings, and embedding bags. The forward pass of a bag is one device call; the backward pass adds the gradient
// of each bag to its rows.
#include <ATen/OpMathType.h>
#include <ATen/TensorUtils.h>
#include <ATen/native/EmbeddingBag.h>
#include <ATen/ops/_embedding_bag_backward_native.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "core/stream/stream.h"
#include "core/stream/sync_debug.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using at::native::EmbeddingBagMode;

void check(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, int64_t mode,
           const OptionalTensor& per_sample_weights, bool include_last_offset) {
  constexpr const char* kName = "embedding_bag";
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2, "input has to be a 1D or 2D Tensor, but got Tensor of dimension ",
              indices.dim());
  TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  at::checkScalarTypes(kName, at::TensorArg(indices, "indices", 1), {at::kLong, at::kInt});
  at::checkScalarTypes(kName, at::TensorArg(weight, "weight", 1), {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
  TORCH_CHECK(mode >= 0 && mode <= static_cast<int64_t>(EmbeddingBagMode::MAX), "`mode` must be sum, mean, or max.");
  TORCH_CHECK(!include_last_offset || offsets.size(0) >= 1, "include_last_offset: number of offset should be at least 1");
  if (!is_given(per_sample_weights)) return;
  TORCH_CHECK(mode == EmbeddingBagMode::SUM, "embedding_bag: per_sample_weights only supported with mode='sum'");
  at::checkSameType(kName, at::TensorArg(weight, "weight", 1), at::TensorArg(*per_sample_weights, "per_sample_weights", 1));
  TORCH_CHECK(per_sample_weights->dim() == 1 && per_sample_weights->numel() == indices.numel(), "per_sample_weights ",
              per_sample_weights->sizes(), " do not match the indices ", indices.sizes());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> embedding_bag(
    const at::Tensor& weight, const at::Tensor& given_indices, const at::Tensor& given_offsets, bool scale_grad_by_freq,
    int64_t mode, bool sparse, const OptionalTensor& per_sample_weights, bool include_last_offset, int64_t padding_idx) {
  const DeviceScope scope(weight);
  const at::ScalarType dtype = at::promote_types(given_indices.scalar_type(), given_offsets.scalar_type());
  const at::Tensor indices = given_indices.to(dtype), offsets = given_offsets.to(dtype);
  check(weight, indices, offsets, mode, per_sample_weights, include_last_offset);
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  const bool is_max = mode == EmbeddingBagMode::MAX;
  at::Tensor output = empty({bags, weight.size(1)}, weight.dtype());
  at::Tensor offset2bag = empty({indices.numel()}, dtype);
  at::Tensor bag_size = empty({bags}, dtype);
  at::Tensor max_indices = is_max ? empty({bags, weight.size(1)}, dtype) : empty({bags}, dtype);
  // The device function waits for its inputs and cannot be interrupted; this wait can.
  report_sync("aten::_embedding_bag", "the device checks the offsets and indices before the call returns");
  getCurrentNPUStream().synchronize();
  call::aclnnEmbeddingBag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
                          padding_idx, output, offset2bag, bag_size, max_indices);
  return {std::move(output), std::move(offset2bag), std::move(bag_size), std::move(max_indices)};
}

at::Tensor dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                          const at::Tensor& bag_size, const at::Tensor& max_indices, int64_t num_weights, bool scale_grad_by_freq,
                          int64_t mode, const OptionalTensor& per_sample_weights, int64_t padding_idx) {
  const DeviceScope scope(grad);
  if (mode == EmbeddingBagMode::MAX) {
    const at::Tensor of_bags = grad.masked_fill(bag_size.eq(0).unsqueeze(1), 0);
    return at::zeros({num_weights, grad.size(1)}, grad.options()).scatter_add_(0, max_indices.to(at::kLong), of_bags);
  }
  const bool is_mean = mode == EmbeddingBagMode::MEAN;
  at::Tensor rows = (is_mean ? grad.div(bag_size.clamp_min(1).unsqueeze(1)) : grad).index_select(0, offset2bag);
  if (is_given(per_sample_weights)) rows = rows.mul(per_sample_weights->unsqueeze(1));
  return at::embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq);
}

at::Tensor per_sample_weights_backward(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices,
                                       const at::Tensor& /*offsets*/, const at::Tensor& offset2bag, int64_t mode,
                                       int64_t padding_idx) {
  TORCH_CHECK(mode == EmbeddingBagMode::SUM, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  const DeviceScope scope(grad);
  const at::ScalarType wide = at::toOpMathType(grad.scalar_type());
  const at::Tensor products = grad.to(wide).index_select(0, offset2bag).mul_(weight.index_select(0, indices));
  return products.sum(1).to(grad.scalar_type()).masked_fill_(indices.eq(padding_idx), 0);
}

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq) {
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "indices of an embedding are int64 or int32, ", "but got ", indices.scalar_type());
  const DeviceScope scope(grad_output);
  at::Tensor grad_weight = empty({num_weights, grad_output.size(-1)}, grad_output.dtype());
  call::aclnnEmbeddingDenseBackward(grad_output, indices, static_cast<uint64_t>(num_weights), static_cast<uint64_t>(padding_idx),
                                    scale_grad_by_freq, grad_weight);
  return grad_weight;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("embedding_dense_backward", TORCH_FN(embedding_dense_backward));
  m.impl("_embedding_bag", TORCH_FN(embedding_bag));
  m.impl("_embedding_bag_forward_only", TORCH_FN(embedding_bag));
  m.impl("_embedding_bag_backward", TORCH_FN(at::native::_embedding_bag_backward_symint));
  m.impl("_embedding_bag_dense_backward", TORCH_FN(dense_backward));
  m.impl("_embedding_bag_per_sample_weights_backward", TORCH_FN(per_sample_weights_backward));
}

}  // namespace torch_npu
