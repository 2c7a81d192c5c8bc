// Shapes of normalisations.
#include "aten/machinery/infer.h"

namespace torch_npu::infer {

namespace {

// The dtype of the statistics: float32 for a half-precision input with float32 parameters.
at::ScalarType statistics_dtype(const at::Tensor& input, const OptionalTensor& parameter) {
  return is_given(parameter) && at::isReducedFloatingType(input.scalar_type()) ? parameter->scalar_type() : input.scalar_type();
}

// Throws unless all have one dtype, or the input has half precision and the parameters are float32.
void check_mixed_dtypes(const at::Tensor& input, std::initializer_list<std::reference_wrapper<const OptionalTensor>> parameters) {
  const auto differs = [&](const OptionalTensor& tensor) { return is_given(tensor) && tensor->dtype() != input.dtype(); };
  if (std::none_of(parameters.begin(), parameters.end(), differs)) return;
  for (const OptionalTensor& parameter : parameters) {
    TORCH_CHECK(!is_given(parameter) || parameter->scalar_type() == at::kFloat,
                "mixed dtype: expect parameter to have scalar type of Float, but got ", parameter->scalar_type(),
                " with input of ", input.scalar_type());
  }
  TORCH_CHECK(at::isReducedFloatingType(input.scalar_type()), "mixed dtype: all inputs must share same datatype, but got Float ",
              "parameters with input of ", input.scalar_type());
}

void check_running_statistics(const OptionalTensor& mean, const OptionalTensor& var) {
  TORCH_CHECK_VALUE(is_given(mean) == is_given(var), "running_mean and running_var must either both be None or neither be None");
}

Outputs<3> masked(Output first, Output second, Output third, std::array<bool, 3> mask) {
  Outputs<3> outputs{std::move(first), std::move(second), std::move(third)};
  for (size_t index = 0; index < 3; ++index) outputs[index].wanted = mask[index];
  return outputs;
}

}  // namespace

Outputs<3> batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training, double /*momentum*/,
                      double /*eps*/) {
  check_running_statistics(running_mean, running_var);
  TORCH_CHECK_VALUE(training || is_given(running_mean), "running_mean and running_var must be given in evaluation mode");
  check_mixed_dtypes(input, {weight, bias, running_mean, running_var});
  TORCH_CHECK(!training || input.numel() > 0,
              "input tensor must have at least one element, but got input_sizes = ", input.sizes());
  const auto options = input.options().dtype(statistics_dtype(input, is_given(weight) ? weight : running_mean));
  const Output statistics = sized({training ? input.size(1) : 0}, options);
  return {formatted_like(input), statistics, statistics};
}

Outputs<3> batch_norm_backward(const at::Tensor& /*grad_out*/, const at::Tensor& input, const OptionalTensor& weight,
                               const OptionalTensor& running_mean, const OptionalTensor& running_var,
                               const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train, double /*eps*/,
                               std::array<bool, 3> output_mask) {
  TORCH_CHECK_VALUE(!train || (is_given(save_mean) && is_given(save_invstd)),
                    "save_mean and save_invstd must be given in training mode: the forward call returned them");
  TORCH_CHECK_VALUE(train || (is_given(running_mean) && is_given(running_var)),
                    "running_mean and running_var must be given in evaluation mode");
  const auto options = input.options().dtype(statistics_dtype(input, is_given(weight) ? weight : running_mean));
  const Output parameter = sized({input.size(1)}, options);
  return masked(formatted_like(input), parameter, parameter, output_mask);
}

Outputs<2> batch_norm_update_stats(const at::Tensor& input, const OptionalTensor& running_mean,
                                   const OptionalTensor& /*running_var*/, double /*momentum*/) {
  const Output statistics = sized({input.size(1)}, input.options().dtype(statistics_dtype(input, running_mean)));
  return {statistics, statistics};
}

Outputs<2> weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const at::ScalarType dtype = at::isReducedFloatingType(g.scalar_type()) ? at::kFloat : g.scalar_type();
  Output norms = sized(g.sizes(), g.options().dtype(dtype));
  norms.strides = Sizes(g.strides());
  return {sized(v.sizes(), v.options()), norms};
}

Outputs<2> weight_norm_backward(const at::Tensor& /*grad_w*/, const at::Tensor& saved_v, const at::Tensor& saved_g,
                                const at::Tensor& /*saved_norms*/, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == saved_v.dim() - 1, "fused kernels can only be applied for first or last dim");
  return {sized(saved_v.sizes(), saved_v.options()), sized(saved_g.sizes(), saved_g.options())};
}

Outputs<3> layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                      const OptionalTensor& bias, double /*eps*/) {
  const auto rank = static_cast<int64_t>(normalized_shape.size());
  TORCH_CHECK(rank >= 1,
              "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got ",
              "normalized_shape = ", normalized_shape);
  TORCH_CHECK(!is_given(weight) || weight->sizes() == normalized_shape,
              "Expected weight to be of same shape as normalized_shape, but ", "got weight of shape ",
              is_given(weight) ? weight->sizes() : at::IntArrayRef{}, " and normalized_shape = ", normalized_shape);
  TORCH_CHECK(!is_given(bias) || bias->sizes() == normalized_shape,
              "Expected bias to be of same shape as normalized_shape, but got ", "bias of shape ",
              is_given(bias) ? bias->sizes() : at::IntArrayRef{}, " and normalized_shape = ", normalized_shape);
  TORCH_CHECK(input.dim() >= rank && input.sizes().slice(input.dim() - rank) == normalized_shape,
              "Given normalized_shape=", normalized_shape, ", expected input with shape [*, ", c10::Join(", ", normalized_shape),
              "], but got input of size", input.sizes());
  check_mixed_dtypes(input, {weight, bias});
  Output statistics = sized(input.sizes(), input.options().dtype(statistics_dtype(input, weight)));
  std::fill(statistics.sizes.end() - rank, statistics.sizes.end(), 1);
  return {sized(input.sizes(), input.options()), statistics, statistics};
}

Outputs<3> layer_norm_backward(const at::Tensor& /*grad_out*/, const at::Tensor& input, at::IntArrayRef normalized_shape,
                               const at::Tensor& /*mean*/, const at::Tensor& /*rstd*/, const OptionalTensor& weight,
                               const OptionalTensor& bias, std::array<bool, 3> output_mask) {
  const auto of = [&](const OptionalTensor& parameter) {
    return sized(normalized_shape, is_given(parameter) ? parameter->options() : input.options());
  };
  return masked(sized(input.sizes(), input.options()), of(weight), of(bias), output_mask);
}

Outputs<3> group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, int64_t batch,
                      int64_t channels, int64_t pixels, int64_t group, double /*eps*/) {
  TORCH_CHECK(input.numel() == batch * channels * pixels, "Expected X.numel() == N * C * HxW to be true, but got false.");
  TORCH_CHECK(!is_given(weight) || (weight->dim() == 1 && weight->numel() == channels),
              "Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape ",
              is_given(weight) ? weight->sizes() : at::IntArrayRef{}, " and input of shape ", input.sizes());
  TORCH_CHECK(input.is_contiguous(input.suggest_memory_format()), "Expected X.is_contiguous(memory_format) to be true, but got ",
              "false.");
  check_mixed_dtypes(input, {weight, bias});
  const Output statistics = sized({batch, group}, input.options().dtype(statistics_dtype(input, weight)));
  return {formatted_like(input), statistics, statistics};
}

Outputs<3> group_norm_backward(const at::Tensor& /*grad_out*/, const at::Tensor& input, const at::Tensor& /*mean*/,
                               const at::Tensor& /*rstd*/, const OptionalTensor& weight, int64_t /*batch*/, int64_t channels,
                               int64_t /*pixels*/, int64_t /*group*/, std::array<bool, 3> output_mask) {
  const Output parameter = sized({channels}, is_given(weight) ? weight->options() : input.options());
  return masked(formatted_like(input), parameter, parameter, output_mask);
}

}  // namespace torch_npu::infer
