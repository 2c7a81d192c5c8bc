// Dropout, and rrelu, a leaky relu with random slopes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/outputs.h"
#include "aten/machinery/philox.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

// Whether the CPU draws a mask of the type.
bool can_be_drawn(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  return !tensor.is_complex() && !c10::isFloat8Type(dtype) && !c10::isBarebonesUnsignedType(dtype);
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(0 <= p && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const DeviceScope scope(input);
  if (p == 0 || !train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::ones(input.sizes(), input.options().dtype(at::kBool))};
  }
  check_random_dtype(can_be_drawn(input), "bernoulli_scalar_cpu_", input);
  TORCH_CHECK(input.is_floating_point(), "result type Float can't be cast to the desired output type ", input.scalar_type());
  auto [out, mask] = allocate(Outputs<2>{like(input), like(input, at::kBool)});
  const Philox philox = draw(std::nullopt, input);
  call::aclnnSoftDropout(input, p, philox.seed, philox.offset, out, mask);
  return {std::move(out), std::move(mask)};
}

at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  const DeviceScope scope(grad_output);
  const bool whole = at::isIntegralType(grad_output.scalar_type(), /*includeBool=*/true);
  auto [out] =
      allocate(Outputs<1>{like(grad_output, whole ? c10::get_default_dtype_as_scalartype() : grad_output.scalar_type())});
  call::aclnnSoftDropoutBackward(grad_output, mask, scale, out);
  return out;
}

at::Tensor masked_scale(const at::Tensor& self, const at::Tensor& mask, double scale) {
  return self * (mask.to(self.scalar_type()) * scale);
}

// ---- rrelu: `noise` keeps the random slopes for the backward pass ----

void check_noise(const at::Tensor& self, const at::Tensor& noise) {
  TORCH_CHECK(self.sizes() == noise.sizes(), "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                                 bool training, OptionalGenerator generator, at::Tensor& out) {
  check_noise(self, noise);
  const DeviceScope scope(self);
  prepare_output(out, like(self));
  const Philox philox = draw(generator, self);
  call::aclnnRReluWithNoise(self, noise, lower, upper, training, philox.seed, philox.offset, out);
  return out;
}

at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                            bool training, OptionalGenerator generator) {
  const DeviceScope scope(self);
  auto [out] = allocate(Outputs<1>{like(self)});
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}

at::Tensor& rrelu_with_noise_inplace(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                                     bool training, OptionalGenerator generator) {
  check_noise(self, noise);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceRReluWithNoise(self, noise, lower, upper, training, philox.seed, philox.offset);
  return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(native_dropout_backward));
  m.impl("_masked_scale", TORCH_FN(masked_scale));
  m.impl("rrelu_with_noise", TORCH_FN(rrelu_with_noise));
  m.impl("rrelu_with_noise.out", TORCH_FN(rrelu_with_noise_out));
  m.impl("rrelu_with_noise_", TORCH_FN(rrelu_with_noise_inplace));
}

}  // namespace torch_npu
