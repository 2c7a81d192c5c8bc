// Negative log likelihood and CTC loss. The device takes int64 labels, so int32 labels are converted first.
#include <ATen/ops/_ctc_loss_backward_native.h>
#include <ATen/ops/_ctc_loss_native.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/infer.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using Forward = at::meta::structured_nll_loss_forward;
using Backward = at::meta::structured_nll_loss_backward;

at::Tensor labels_of(const at::Tensor& target) { return target.scalar_type() == at::kInt ? target.to(at::kLong) : target; }

template <class Op>
void forward(Op& op, const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight, int64_t reduction,
             int64_t ignored) {
  const at::Tensor labels = labels_of(target);
  op.meta(self, labels, borrowed(weight), reduction, ignored);
  call::aclnnNLLLoss(self, labels, weight, reduction, ignored, op.output(0), op.output(1));
}

std::tuple<at::Tensor, at::Tensor> nll_loss_forward(const at::Tensor& self, const at::Tensor& target,
                                                    const OptionalTensor& weight, int64_t reduction, int64_t ignored) {
  const DeviceScope scope(self);
  Functional<Forward, 2> op;
  forward(op, self, target, weight, reduction, ignored);
  return {std::move(op.take(0)), std::move(op.take(1))};
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                          const OptionalTensor& weight, int64_t reduction, int64_t ignored,
                                                          at::Tensor& output, at::Tensor& total_weight) {
  const DeviceScope scope(self);
  Into<Forward, 2, Form::kOut> op({output, total_weight});
  forward(op, self, target, weight, reduction, ignored);
  op.finish();
  return {output, total_weight};
}

at::Tensor nll_loss_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                             const OptionalTensor& weight, int64_t reduction, int64_t ignored, const at::Tensor& total_weight) {
  const DeviceScope scope(self);
  const at::Tensor labels = labels_of(target);
  const auto run = [&](const at::Tensor& out) {
    call::aclnnNLLLossBackward(grad, self, labels, weight, reduction, ignored, total_weight, out);
  };
  return compute<Backward>(run, grad, self, labels, borrowed(weight), reduction, ignored, total_weight);
}

at::Tensor& nll_loss_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                  const OptionalTensor& weight, int64_t reduction, int64_t ignored,
                                  const at::Tensor& total_weight, at::Tensor& grad_input) {
  const DeviceScope scope(self);
  const at::Tensor labels = labels_of(target);
  const auto run = [&](const at::Tensor& out) {
    call::aclnnNLLLossBackward(grad, self, labels, weight, reduction, ignored, total_weight, out);
  };
  return compute_into<Backward, Form::kOut>(grad_input, run, grad, self, labels, borrowed(weight), reduction, ignored,
                                            total_weight);
}

std::tuple<at::Tensor, at::Tensor> nll_loss2d_forward(const at::Tensor& self, const at::Tensor& target,
                                                      const OptionalTensor& weight, int64_t reduction, int64_t ignored) {
  const DeviceScope scope(self);
  auto [output, total_weight] = allocate(infer::nll_loss2d(self, target, weight, reduction, ignored));
  call::aclnnNLLLoss2d(self, labels_of(target), weight, reduction, ignored, output, total_weight);
  return {std::move(output), std::move(total_weight)};
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                            const OptionalTensor& weight, int64_t reduction, int64_t ignored,
                                                            at::Tensor& output, at::Tensor& total_weight) {
  const DeviceScope scope(self);
  const Results<2> results(infer::nll_loss2d(self, target, weight, reduction, ignored), {output, total_weight});
  call::aclnnNLLLoss2d(self, labels_of(target), weight, reduction, ignored, results.output(0), results.output(1));
  return {output, total_weight};
}

at::Tensor& nll_loss2d_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                    const OptionalTensor& weight, int64_t reduction, int64_t ignored,
                                    const at::Tensor& total_weight, at::Tensor& grad_input) {
  const DeviceScope scope(self);
  prepare_output(grad_input, sized(self.sizes(), self.options()));
  call::aclnnNLLLoss2dBackward(grad, self, labels_of(target), weight, reduction, ignored, total_weight, grad_input);
  return grad_input;
}

at::Tensor nll_loss2d_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                               const OptionalTensor& weight, int64_t reduction, int64_t ignored, const at::Tensor& total_weight) {
  const DeviceScope scope(self);
  auto [grad_input] = allocate(Outputs<1>{sized(self.sizes(), self.options())});
  call::aclnnNLLLoss2dBackward(grad, self, labels_of(target), weight, reduction, ignored, total_weight, grad_input);
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nll_loss_forward", TORCH_FN(nll_loss_forward));
  m.impl("nll_loss_forward.output", TORCH_FN(nll_loss_forward_out));
  m.impl("nll_loss_backward", TORCH_FN(nll_loss_backward));
  m.impl("nll_loss_backward.grad_input", TORCH_FN(nll_loss_backward_out));
  m.impl("nll_loss2d_forward", TORCH_FN(nll_loss2d_forward));
  m.impl("nll_loss2d_forward.output", TORCH_FN(nll_loss2d_forward_out));
  m.impl("nll_loss2d_backward", TORCH_FN(nll_loss2d_backward));
  m.impl("nll_loss2d_backward.grad_input", TORCH_FN(nll_loss2d_backward_out));
  m.impl("_ctc_loss.Tensor", TORCH_FN(at::native::ctc_loss_tensor));
  m.impl("_ctc_loss_backward.Tensor", TORCH_FN(at::native::ctc_loss_backward_tensor));
}

}  // namespace torch_npu
