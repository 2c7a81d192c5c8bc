// Shapes of attention.
#include "aten/machinery/infer.h"

namespace torch_npu::infer {

Outputs<3> transform_bias_rescale_qkv(const at::Tensor& qkv, const at::Tensor& qkv_bias, int64_t num_heads) {
  TORCH_CHECK(qkv.dim() == 3 && qkv_bias.dim() == 1 && qkv.size(2) == qkv_bias.size(0), "qkv ", qkv.sizes(), " and qkv_bias ",
              qkv_bias.sizes(), " do not match");
  TORCH_CHECK(qkv.size(2) % (3 * num_heads) == 0, "qkv ", qkv.sizes(), " cannot be split into three parts of ", num_heads,
              " heads");
  const Output part = sized({qkv.size(0), num_heads, qkv.size(1), qkv.size(2) / 3 / num_heads}, qkv.options());
  return {part, part, part};
}

Outputs<1> masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> /*dim*/,
                          std::optional<int64_t> mask_type) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  constexpr int64_t kSquare = 0, kPadding = 1, kWhole = 2;
  const int64_t kind = mask.dim() == 2 && self.dim() == 4 ? mask_type.value_or(kWhole) : kWhole;
  TORCH_CHECK(kind != kWhole || self.sizes() == mask.sizes(), "For mask_type == 2 mask should have same shape as input");
  TORCH_CHECK(kind != kPadding || (self.size(0) == mask.size(0) && self.size(2) == mask.size(1)),
              "For mask_type == 1 mask shape should be (B, L)");
  TORCH_CHECK(kind != kSquare || (self.size(2) == mask.size(0) && self.size(2) == mask.size(1)),
              "For mask_type == 0 mask shape should be (L, L)");
  return dense_like_self(self);
}

Outputs<1> masked_softmax_backward(const at::Tensor& grad_output, const at::Tensor& /*output*/, const at::Tensor& mask,
                                   std::optional<int64_t> /*dim*/) {
  TORCH_CHECK(grad_output.sizes() == mask.sizes(), "Mask shape should match grad shape");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  return dense_like_self(grad_output);
}

}  // namespace torch_npu::infer
