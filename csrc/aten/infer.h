// Shapes and dtypes of what non-structured operators return: the `infer` key of ops.yaml names one of these. Each takes the
// operator's arguments, makes the checks that PyTorch's own code makes, and touches no memory.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <optional>

#include "aten/allocate.h"

namespace torch_npu {

using Sizes = c10::SmallVector<int64_t, 6>;

struct Output {
  Sizes sizes{};
  Sizes strides{};  // empty: contiguous, or as the options' memory format says
  at::TensorOptions options{};
  bool wanted = true;  // false: the operator returns an undefined tensor here
  at::Tensor made{};   // defined: what shape inference had to make anyway
};

template <size_t N>
using Outputs = std::array<Output, N>;

// The sizes of `tensor`, in its own order of dimensions if it is dense or permuted.
Output like(const at::Tensor& tensor, at::ScalarType dtype);
inline Output like(const at::Tensor& tensor) { return like(tensor, tensor.scalar_type()); }
// The sizes of `tensor` in its suggested memory format.
Output formatted_like(const at::Tensor& tensor);
inline Output sized(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return {.sizes = Sizes(sizes), .options = options.memory_format({})};
}

template <size_t N>
std::array<at::Tensor, N> allocate(const Outputs<N>& outputs) {
  std::array<at::Tensor, N> tensors;
  for (size_t index = 0; index < N; ++index) {
    const Output& output = outputs[index];
    if (!output.wanted) continue;
    tensors[index] = output.made.defined() ? output.made : empty_output(output.sizes, output.strides, output.options);
  }
  return tensors;
}

// The same without memory, for shape propagation.
template <size_t N>
std::array<at::Tensor, N> allocate_meta(const Outputs<N>& outputs) {
  std::array<at::Tensor, N> tensors;
  for (size_t index = 0; index < N; ++index) {
    const Output& output = outputs[index];
    if (output.wanted) tensors[index] = at::detail::empty_meta(output.sizes, output.options.device(at::kMeta));
  }
  return tensors;
}

template <size_t N>
void resize_outputs(const Outputs<N>& outputs, const std::array<std::reference_wrapper<at::Tensor>, N>& given) {
  for (size_t index = 0; index < N; ++index) {
    const Output& output = outputs[index];
    if (output.wanted) resize_output(given[index], output.sizes, output.strides, output.options);
  }
}

namespace infer {

using OptionalTensor = std::optional<at::Tensor>;

// ---- elementwise ----

template <class... Rest>
Outputs<1> like_self(const at::Tensor& self, const Rest&...) {
  return {like(self)};
}
template <class... Rest>
Outputs<1> like_self_of_two(const at::Tensor& /*grad*/, const at::Tensor& self, const Rest&...) {
  return {formatted_like(self)};
}
template <class... Rest>
Outputs<1> one_like_self(const at::Tensor& self, const Rest&...) {
  return {sized({}, self.options())};
}
template <class... Rest>
Outputs<1> extreme(const at::Tensor& self, const Rest&...) {
  TORCH_CHECK(self.numel() > 0,
              "max() and min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction ",
              "dim with the 'dim' argument.");
  return one_like_self(self);
}
template <class... Rest>
Outputs<1> loss_backward(const at::Tensor& /*grad*/, const at::Tensor& self, const at::Tensor& target, const Rest&...) {
  TORCH_CHECK(self.sizes() == target.sizes() || self.numel() >= target.numel(), "input ", self.sizes(), " and target ",
              target.sizes(), " do not match");
  return {like(self)};
}
inline Outputs<1> truth(const at::Tensor& self) { return {like(self, at::kBool)}; }
Outputs<1> absolute(const at::Tensor& self);
Outputs<1> truth_of_two(const at::Tensor& self, const at::Tensor& other);
Outputs<1> promoted(const at::Tensor& self, const at::Tensor& other);
Outputs<1> number_first(const at::Scalar& self, const at::Tensor& other);
Outputs<1> where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other);
Outputs<1> flip(const at::Tensor& self, at::IntArrayRef dims);
Outputs<1> roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims);
Outputs<1> hardtanh(const at::Tensor& self, const at::Scalar& min_val, const at::Scalar& max_val);
inline Outputs<1> hardtanh_backward(const at::Tensor&, const at::Tensor& self, const at::Scalar&, const at::Scalar&) {
  return {like(self)};
}
Outputs<2> log_sigmoid(const at::Tensor& self);
Outputs<1> logit(const at::Tensor& self, std::optional<double> eps);
inline Outputs<1> log_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor&, const at::Tensor&) {
  return {like(grad_output)};
}
inline Outputs<1> glu_backward(const at::Tensor&, const at::Tensor& self, int64_t) {
  return {sized(self.sizes(), self.options())};
}

// ---- reductions, products, indexing ----

Outputs<1> prod(const at::Tensor& self, std::optional<at::ScalarType> dtype);
Outputs<1> trace(const at::Tensor& self);
Outputs<1> nansum(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype);
Outputs<1> addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha);
Outputs<1> addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha);
// Values and positions along one dimension.
Outputs<2> along_dim(const at::Tensor& self, int64_t dim, bool keepdim);
inline Outputs<2> kthvalue(const at::Tensor& self, int64_t /*k*/, int64_t dim, bool keepdim) {
  return along_dim(self, dim, keepdim);
}
Outputs<1> histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max);
Outputs<1> cdist(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode);
Outputs<1> dot(const at::Tensor& self, const at::Tensor& tensor);
Outputs<1> bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right);
Outputs<1> index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index);
inline Outputs<1> take(const at::Tensor& self, const at::Tensor& index) { return {sized(index.sizes(), self.options())}; }
inline Outputs<1> unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t, int64_t, int64_t) {
  return {sized(input_sizes, grad.options())};
}
Outputs<1> reflection_pad2d(const at::Tensor& self, at::IntArrayRef padding);
inline Outputs<1> padded_backward(const at::Tensor&, const at::Tensor& self, at::IntArrayRef) { return {formatted_like(self)}; }

// ---- losses ----

Outputs<1> huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta);
Outputs<1> mse_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target, int64_t reduction);
Outputs<1> binary_cross_entropy(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight,
                                int64_t reduction);
Outputs<1> binary_cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                         const OptionalTensor& weight, int64_t reduction);
Outputs<2> nll_loss2d(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight, int64_t reduction,
                      int64_t ignore_index);
Outputs<2> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                    at::IntArrayRef target_lengths, int64_t blank, bool zero_infinity);
template <class... Rest>
Outputs<1> ctc_loss_backward(const at::Tensor& /*grad*/, const at::Tensor& log_probs, const Rest&...) {
  return {sized(log_probs.sizes(), log_probs.options())};
}

// ---- networks ----

// What a convolution and its gradients are laid out in: channels last if input or weight is.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight);
Outputs<1> convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       int64_t groups);
Outputs<3> batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training, double momentum,
                      double eps);
inline Outputs<3> batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                      bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}
Outputs<3> batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const OptionalTensor& weight,
                               const OptionalTensor& running_mean, const OptionalTensor& running_var,
                               const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train, double eps,
                               std::array<bool, 3> output_mask);
Outputs<3> layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                      const OptionalTensor& bias, double eps);
Outputs<3> layer_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape,
                               const at::Tensor& mean, const at::Tensor& rstd, const OptionalTensor& weight,
                               const OptionalTensor& bias, std::array<bool, 3> output_mask);
Outputs<3> group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, int64_t batch,
                      int64_t channels, int64_t pixels, int64_t group, double eps);
Outputs<3> group_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                               const at::Tensor& rstd, const OptionalTensor& weight, int64_t batch, int64_t channels,
                               int64_t pixels, int64_t group, std::array<bool, 3> output_mask);
// Of two or three spatial dimensions.
Outputs<1> grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                        bool align_corners);
Outputs<2> grid_sampler_backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& grid,
                                 int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                                 std::array<bool, 2> output_mask);
Outputs<2> max_pool3d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                      at::IntArrayRef dilation, bool ceil_mode);
Outputs<1> max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel_size,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode,
                               const at::Tensor& indices);
Outputs<1> max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size);
Outputs<1> max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size, at::IntArrayRef stride,
                        at::IntArrayRef padding);
Outputs<1> im2col(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride);
Outputs<1> col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride);
Outputs<1> adaptive_avg_pool(const at::Tensor& self, at::IntArrayRef output_size);
Outputs<1> adaptive_avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self);
Outputs<1> adaptive_avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self);
Outputs<3> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                     const OptionalTensor& input_bias, const OptionalTensor& hidden_bias);
Outputs<3> transform_bias_rescale_qkv(const at::Tensor& qkv, const at::Tensor& qkv_bias, int64_t num_heads);
Outputs<2> fake_quantize_per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
                                     int64_t quant_min, int64_t quant_max);

}  // namespace infer
}  // namespace torch_npu
