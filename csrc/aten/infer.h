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
  bool wanted = true;               // false: the operator returns an undefined tensor here
  bool casts = false;               // an out= tensor may have another dtype, as elementwise operators allow it
  at::Tensor made{};                // defined: what shape inference had to make anyway
  std::vector<at::Tensor> apart{};  // what an out= tensor may share no memory with
};

template <size_t N>
using Outputs = std::array<Output, N>;

// The sizes of `tensor`, in its own order of dimensions if it is dense or permuted.
Output like(const at::Tensor& tensor, at::ScalarType dtype);
// The same as the result of an elementwise operator.
inline Output elementwise(const at::Tensor& tensor, at::ScalarType dtype) {
  Output output = like(tensor, dtype);
  output.casts = true;
  return output;
}
inline Output like(const at::Tensor& tensor) { return like(tensor, tensor.scalar_type()); }
// The sizes of `tensor` in its suggested memory format.
Output formatted_like(const at::Tensor& tensor);
inline Output sized(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return {.sizes = Sizes(sizes), .options = options.memory_format({})};
}

// Gives `given` the shape of `output`, or says in PyTorch's words why it cannot. A stand-in, if the dtypes differ and may.
at::Tensor prepare_output(const at::Tensor& given, const Output& output);

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

// Where an out= form writes: the caller's tensors, or stand-ins where the caller wants another dtype than the result has.
//
//   Results<1> results(infer::promoted(self, other), {out});   call::aclnnFloorDivide(self, other, results.output(0));
//   results.finish();
template <size_t N>
class Results {
 public:
  Results(const Outputs<N>& outputs, const std::array<std::reference_wrapper<at::Tensor>, N>& given) : given_(given) {
    for (size_t index = 0; index < N; ++index) {
      if (outputs[index].wanted) proxies_[index] = prepare_output(given[index], outputs[index]);
    }
  }

  const at::Tensor& output(size_t index) const { return proxies_[index].defined() ? proxies_[index] : given_[index].get(); }

  // Casts stand-ins into the caller's tensors. To be called after the launch.
  void finish() const {
    for (size_t index = 0; index < N; ++index) {
      if (proxies_[index].defined()) given_[index].get().copy_(proxies_[index]);
    }
  }

 private:
  std::array<std::reference_wrapper<at::Tensor>, N> given_;
  std::array<at::Tensor, N> proxies_;
};

// An in-place call of an operator that broadcasts: it cannot make its tensor larger.
void check_inplace_broadcast(const at::Tensor& self, const at::Tensor& other);

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
// The same sizes, contiguous.
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
template <class... Rest>
Outputs<1> extreme(const at::Tensor& self, const Rest&...) {
  TORCH_CHECK(self.numel() > 0,
              "max() and min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction ",
              "dim with the 'dim' argument.");
  Outputs<1> outputs = one_like_self(self);
  outputs[0].casts = true;
  return outputs;
}
template <class... Rest>
Outputs<1> loss_backward(const at::Tensor& /*grad*/, const at::Tensor& self, const at::Tensor& target, const Rest&...) {
  TORCH_CHECK(self.sizes() == target.sizes() || self.numel() >= target.numel(), "input ", self.sizes(), " and target ",
              target.sizes(), " do not match");
  return {like(self)};
}
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
Outputs<1> logit(const at::Tensor& self, std::optional<double> eps);
inline Outputs<1> log_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor&, const at::Tensor&) {
  return {like(grad_output)};
}
Outputs<1> angle(const at::Tensor& self);
Outputs<1> channel_shuffle(const at::Tensor& self, int64_t groups);
Outputs<1> masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> dim,
                          std::optional<int64_t> mask_type);
Outputs<1> masked_softmax_backward(const at::Tensor& grad_output, const at::Tensor& output, const at::Tensor& mask,
                                   std::optional<int64_t> dim);

// ---- reductions, products, indexing ----

Outputs<1> prod(const at::Tensor& self, std::optional<at::ScalarType> dtype);
Outputs<1> trace(const at::Tensor& self);
Outputs<1> logcumsumexp(const at::Tensor& self, int64_t dim);
Outputs<1> nansum(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype);
Outputs<1> addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha);
Outputs<1> addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha);
// Values and positions along one dimension, which may not be empty; `name` says who asks.
Outputs<2> along_dim(const char* name, const at::Tensor& self, int64_t dim, bool keepdim);
inline Outputs<2> median(const at::Tensor& self, int64_t dim, bool keepdim) { return along_dim("median()", self, dim, keepdim); }
inline Outputs<2> mode(const at::Tensor& self, int64_t dim, bool keepdim) { return along_dim("mode()", self, dim, keepdim); }
// These check what ATen's shape functions do not: that matrices have one dtype.
void mm(const at::Tensor& self, const at::Tensor& mat2);
void addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
           const at::Scalar& alpha);
void bmm(const at::Tensor& self, const at::Tensor& mat2);
// These check dtypes that the device would refuse too late.
void pointwise(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value);
void lerp_number(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight);
void cumulative(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype);
void renorm(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm);
void clamp_numbers(const at::Tensor& self, const std::optional<at::Scalar>& min,
                   const std::optional<at::Scalar>& max = std::nullopt);
void clamp_tensors(const at::Tensor& self, const OptionalTensor& min, const OptionalTensor& max);
void embedding_renorm(const at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type);
inline void baddbmm(const at::Tensor& /*self*/, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& /*beta*/,
                    const at::Scalar& /*alpha*/) {
  bmm(batch1, batch2);
}
Outputs<2> kthvalue(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim);
Outputs<1> histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max);
Outputs<1> cdist(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode);
Outputs<1> cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p, const at::Tensor& cdist);
Outputs<1> pdist(const at::Tensor& self, double p);
Outputs<1> dot(const at::Tensor& self, const at::Tensor& tensor);
Outputs<1> bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right);
Outputs<1> index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index);
// Of operators that only write to their own arguments: the checks alone.
void masked_fill(const at::Tensor& self, const at::Tensor& mask);
void masked_fill(const at::Tensor& self, const at::Tensor& mask, const at::Scalar& value);
void masked_fill(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& value);
void masked_scatter(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& source);
void index_fill(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value);
void put(const at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate);
Outputs<1> take(const at::Tensor& self, const at::Tensor& index);
Outputs<1> unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t dim, int64_t size, int64_t step);
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
Outputs<2> multilabel_margin_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction);
Outputs<1> multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                             const OptionalTensor& weight, int64_t reduction);
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
void fractional_max_pool(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                         const at::Tensor& random_samples);
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

// ---- linear algebra ----

// The sizes of `self`, matrices by columns.
Outputs<1> columns(const at::Tensor& self, const at::Tensor& A, bool upper);
Outputs<1> matrix_exp(const at::Tensor& self);
// These refuse to go without pivots, as the CPU does.
void lu(const at::Tensor& A, bool pivot);
inline void lu_factor(const at::Tensor& A, bool pivot, bool /*check_errors*/) { lu(A, pivot); }

}  // namespace infer
}  // namespace torch_npu
