// Shape functions of operators that have none in ATen. The `infer` key of ops.yaml names one of them.
//
//   auto [out] = allocate(infer::flip(self, dims));
//
// Each takes the operator's arguments, makes PyTorch's checks, and reads no memory. A function that returns void only checks:
// ATen has the shape, or the operator only writes to its arguments. infer/ has a file for each family.
#pragma once

#include <array>
#include <optional>

#include "aten/machinery/optional_tensor.h"
#include "aten/machinery/outputs.h"

namespace torch_npu::infer {

// ---- any operator ----

template <class... Rest>
Outputs<1> like_self(const at::Tensor& self, const Rest&...) {
  return {like(self)};
}
template <class... Rest>
Outputs<1> like_self_of_two(const at::Tensor& /*grad*/, const at::Tensor& self, const Rest&...) {
  return {formatted_like(self)};
}
// The sizes of self, contiguous.
template <class... Rest>
Outputs<1> dense_like_self(const at::Tensor& self, const Rest&...) {
  return {sized(self.sizes(), self.options())};
}
template <class... Rest>
Outputs<1> dense_like_self_of_two(const at::Tensor& /*grad*/, const at::Tensor& self, const Rest&...) {
  return {sized(self.sizes(), self.options())};
}
template <class... Rest>
Outputs<1> one_like_self(const at::Tensor& self, const Rest&...) {
  return {sized({}, self.options())};
}

// ---- elementwise.cpp ----

// Throws PyTorch's conversion error for a complex number and a real dtype.
void check_real(const at::Scalar& value, at::ScalarType dtype);
inline Outputs<1> truth(const at::Tensor& self) { return {elementwise(self, at::kBool)}; }
Outputs<1> absolute(const at::Tensor& self);
Outputs<1> truth_of_two(const at::Tensor& self, const at::Tensor& other);
Outputs<1> promoted(const at::Tensor& self, const at::Tensor& other);
inline Outputs<1> promoted(const at::Tensor& self, const at::Tensor& other, const at::Scalar& /*alpha*/) {
  return promoted(self, other);
}
Outputs<1> number_first(const at::Scalar& self, const at::Tensor& other);
Outputs<1> where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other);
Outputs<1> flip(const at::Tensor& self, at::IntArrayRef dims);
Outputs<1> roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims);
Outputs<1> hardtanh(const at::Tensor& self, const at::Scalar& min_val, const at::Scalar& max_val);
inline Outputs<1> hardtanh_backward(const at::Tensor&, const at::Tensor& self, const at::Scalar&, const at::Scalar&) {
  return {like(self)};
}
Outputs<2> log_sigmoid(const at::Tensor& self);
inline Outputs<1> log_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor&, const at::Tensor&) {
  return {like(grad_output)};
}
Outputs<1> logit(const at::Tensor& self, std::optional<double> eps);
Outputs<1> angle(const at::Tensor& self);
void pointwise(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value);
void lerp_number(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight);
void clamp_numbers(const at::Tensor& self, const std::optional<at::Scalar>& min,
                   const std::optional<at::Scalar>& max = std::nullopt);
void clamp_tensors(const at::Tensor& self, const OptionalTensor& min, const OptionalTensor& max);

// ---- reduce.cpp ----

template <class... Rest>
Outputs<1> extreme(const at::Tensor& self, const Rest&...) {
  TORCH_CHECK(self.numel() > 0,
              "max() and min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction ",
              "dim with the 'dim' argument.");
  Outputs<1> outputs = one_like_self(self);
  outputs[0].casts = true;
  return outputs;
}
// Values and positions along one dimension, which may not be empty. Error messages start with `name`.
Outputs<2> along_dim(const char* name, const at::Tensor& self, int64_t dim, bool keepdim);
inline Outputs<2> median(const at::Tensor& self, int64_t dim, bool keepdim) { return along_dim("median()", self, dim, keepdim); }
inline Outputs<2> mode(const at::Tensor& self, int64_t dim, bool keepdim) { return along_dim("mode()", self, dim, keepdim); }
Outputs<2> kthvalue(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim);
Outputs<1> histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max);
Outputs<1> prod(const at::Tensor& self, std::optional<at::ScalarType> dtype);
Outputs<1> nansum(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype);
Outputs<1> logcumsumexp(const at::Tensor& self, int64_t dim);
void cumulative(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype);
void renorm(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm);

// ---- indexing.cpp ----

Outputs<1> bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right);
void masked_fill(const at::Tensor& self, const at::Tensor& mask);
void masked_fill(const at::Tensor& self, const at::Tensor& mask, const at::Scalar& value);
void masked_fill(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& value);
void masked_scatter(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& source);
void index_fill(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value);
void put(const at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate);
Outputs<1> take(const at::Tensor& self, const at::Tensor& index);
Outputs<1> index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index);
Outputs<1> unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t dim, int64_t size, int64_t step);
void embedding_renorm(const at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type);

// ---- linalg.cpp ----

// ATen's shape functions do not check that the matrices have one dtype; these do.
void mm(const at::Tensor& self, const at::Tensor& mat2);
void addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
           const at::Scalar& alpha);
void bmm(const at::Tensor& self, const at::Tensor& mat2);
inline void baddbmm(const at::Tensor& /*self*/, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& /*beta*/,
                    const at::Scalar& /*alpha*/) {
  infer::bmm(batch1, batch2);
}
Outputs<1> addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha);
Outputs<1> addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha);
Outputs<1> dot(const at::Tensor& self, const at::Tensor& tensor);
Outputs<1> trace(const at::Tensor& self);
Outputs<1> cdist(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode);
Outputs<1> cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p, const at::Tensor& cdist);
Outputs<1> pdist(const at::Tensor& self, double p);
// The sizes of `self`, with matrices in column-major order.
Outputs<1> columns(const at::Tensor& self, const at::Tensor& A, bool upper);
Outputs<1> matrix_exp(const at::Tensor& self);
// Throw without pivoting, as the CPU does.
void lu(const at::Tensor& A, bool pivot);
inline void lu_factor(const at::Tensor& A, bool pivot, bool /*check_errors*/) { lu(A, pivot); }

// ---- loss.cpp ----

template <class... Rest>
Outputs<1> loss_backward(const at::Tensor& /*grad*/, const at::Tensor& self, const at::Tensor& target, const Rest&...) {
  TORCH_CHECK(self.sizes() == target.sizes() || self.numel() >= target.numel(), "input ", self.sizes(), " and target ",
              target.sizes(), " do not match");
  return {like(self)};
}
Outputs<1> huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta);
Outputs<1> mse_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target, int64_t reduction);
Outputs<1> binary_cross_entropy(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight,
                                int64_t reduction);
Outputs<1> binary_cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                         const OptionalTensor& weight, int64_t reduction);
Outputs<2> nll_loss2d(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight, int64_t reduction,
                      int64_t ignore_index);
Outputs<2> multilabel_margin_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction);
Outputs<1> multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                             const OptionalTensor& weight, int64_t reduction);
Outputs<2> ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                    at::IntArrayRef target_lengths, int64_t blank, bool zero_infinity);
template <class... Rest>
Outputs<1> ctc_loss_backward(const at::Tensor& /*grad*/, const at::Tensor& log_probs, const Rest&...) {
  return {sized(log_probs.sizes(), log_probs.options())};
}

// ---- norm.cpp ----

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
Outputs<2> batch_norm_update_stats(const at::Tensor& input, const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                   double momentum);
Outputs<2> weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim);
Outputs<2> weight_norm_backward(const at::Tensor& grad_w, const at::Tensor& saved_v, const at::Tensor& saved_g,
                                const at::Tensor& saved_norms, int64_t dim);
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

// ---- spatial.cpp ----

// The memory format of a convolution and its gradients: channels last if that of the input or the weight is.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight);
Outputs<1> convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       int64_t groups);
Outputs<1> im2col(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride);
Outputs<1> col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride);
Outputs<1> channel_shuffle(const at::Tensor& self, int64_t groups);
Outputs<1> reflection_pad2d(const at::Tensor& self, at::IntArrayRef padding);
inline Outputs<1> padded_backward(const at::Tensor&, const at::Tensor& self, at::IntArrayRef) { return {formatted_like(self)}; }
// For two or three spatial dimensions.
Outputs<1> grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                        bool align_corners);
Outputs<2> grid_sampler_backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& grid,
                                 int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
                                 std::array<bool, 2> output_mask);

// ---- pooling.cpp ----

Outputs<1> adaptive_avg_pool(const at::Tensor& self, at::IntArrayRef output_size);
Outputs<1> adaptive_avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self);
Outputs<1> adaptive_avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self);
Outputs<2> max_pool3d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                      at::IntArrayRef dilation, bool ceil_mode);
Outputs<1> max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel_size,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode,
                               const at::Tensor& indices);
void fractional_max_pool(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                         const at::Tensor& random_samples);
Outputs<1> max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size);
Outputs<1> max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size, at::IntArrayRef stride,
                        at::IntArrayRef padding);

// ---- sequence.cpp ----

Outputs<3> transform_bias_rescale_qkv(const at::Tensor& qkv, const at::Tensor& qkv_bias, int64_t num_heads);
Outputs<1> masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> dim,
                          std::optional<int64_t> mask_type);
Outputs<1> masked_softmax_backward(const at::Tensor& grad_output, const at::Tensor& output, const at::Tensor& mask,
                                   std::optional<int64_t> dim);

// ---- quantize.cpp ----

Outputs<2> fake_quantize_per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
                                     int64_t quant_min, int64_t quant_max);
Outputs<1> learnable_quantize_per_tensor(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                         int64_t quant_min, int64_t quant_max, double grad_factor);
Outputs<3> learnable_quantize_per_tensor_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale,
                                                  const at::Tensor& zero_point, int64_t quant_min, int64_t quant_max,
                                                  double grad_factor);
Outputs<1> learnable_quantize_per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                          int64_t axis, int64_t quant_min, int64_t quant_max, double grad_factor);
Outputs<3> learnable_quantize_per_channel_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale,
                                                   const at::Tensor& zero_point, int64_t axis, int64_t quant_min,
                                                   int64_t quant_max, double grad_factor);

}  // namespace torch_npu::infer
