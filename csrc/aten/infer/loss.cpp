// Shapes of losses.
#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/ops/_ctc_loss_native.h>
#include <ATen/ops/result_type.h>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

namespace {

Output reduced_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  const at::ScalarType dtype = at::result_type(self, target);
  return reduction == at::Reduction::None ? broadcast({self, target}, dtype) : sized({}, self.options().dtype(dtype));
}

}  // namespace

Outputs<1> huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  return {reduced_loss(self, target, reduction)};
}

Outputs<1> mse_loss_backward(const at::Tensor& /*grad_output*/, const at::Tensor& self, const at::Tensor& target,
                             int64_t /*reduction*/) {
  return {broadcast({self, target}, at::result_type(self, target))};
}

Outputs<1> binary_cross_entropy(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& /*weight*/,
                                int64_t reduction) {
  TORCH_CHECK(self.sizes() == target.sizes(), "Using a target size (", target.sizes(), ") that is different to the input size (",
              self.sizes(), ") is deprecated. Please ensure they have the same size.");
  return {reduction == at::Reduction::None ? like(self) : sized({}, self.options())};
}

Outputs<1> binary_cross_entropy_backward(const at::Tensor& /*grad_output*/, const at::Tensor& self, const at::Tensor& /*target*/,
                                         const OptionalTensor& /*weight*/, int64_t /*reduction*/) {
  return {like(self)};
}

Outputs<2> nll_loss2d(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight, int64_t reduction,
                      int64_t /*ignore_index*/) {
  TORCH_CHECK(self.dim() == 4, "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  TORCH_CHECK(!is_given(weight) || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  return {reduction == at::Reduction::None ? sized(target.sizes(), self.options()) : sized({}, self.options()),
          sized({}, self.options())};
}

Outputs<2> multilabel_margin_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  int64_t frames = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(frames, classes, self.dim(), self, target);
  const bool whole = reduction != at::Reduction::None || target.dim() <= 1;
  return {whole ? sized({}, self.options()) : sized({frames}, self.options()), sized(target.sizes(), self.options())};
}

Outputs<1> multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& /*margin*/,
                             const OptionalTensor& weight, int64_t reduction) {
  const auto power = p.to<int>();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  int64_t frames = 0, classes = 0;
  at::native::multi_margin_loss_shape_check(frames, classes, self.dim(), self, target, weight);
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
  const bool whole = reduction != at::Reduction::None || target.dim() == 0;
  return {whole ? sized({}, self.options()) : sized({frames}, self.options())};
}

Outputs<2> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                    at::IntArrayRef target_lengths, int64_t blank, bool zero_infinity) {
  TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
  const auto [loss, log_alpha] =
      at::native::ctc_loss_meta(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  return {Output{.made = loss}, Output{.made = log_alpha}};
}

}  // namespace torch_npu::infer
