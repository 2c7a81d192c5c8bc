// torch.autocast("npu"): PyTorch's own lists of operators that run in the lower precision, in float32, or in the widest dtype of
// their arguments. All other operators run unchanged.
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace torch_npu {
namespace {

at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: they need float32, which a "
              "float16 network does not give them. Use torch.nn.functional.binary_cross_entropy_with_logits or "
              "torch.nn.BCEWithLogitsLoss, which take the sigmoid themselves and are safe to autocast");
}

// Casts all operands, so that the device computes whole layers. The cells, whose operands autocast casts one by one, give the
// same types.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(const at::Tensor& input, at::TensorList hx, at::TensorList params,
                                                    bool has_biases, int64_t num_layers, double dropout, bool train,
                                                    bool bidirectional, bool batch_first) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::DispatchKey::AutocastPrivateUse1);
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(at::kPrivateUse1);
  const auto cast = [dtype](const auto& operand) { return at::autocast::cached_cast(dtype, operand, at::kPrivateUse1); };
  return at::lstm(cast(input), cast(hx), cast(params), has_biases, num_layers, dropout, train, bidirectional, batch_first);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) { library.fallback(torch::CppFunction::makeFallthrough()); }

#define TORCH_NPU_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TORCH_NPU_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TORCH_NPU_FLOAT32_UNLESS_GIVEN(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TORCH_NPU_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using namespace at;
  using namespace at::autocast;
  AT_FORALL_LOWER_PRECISION_FP(TORCH_NPU_LOWER_PRECISION)
  AT_FORALL_FP32(TORCH_NPU_FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TORCH_NPU_FLOAT32_UNLESS_GIVEN)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(TORCH_NPU_WIDEST)
  m.impl("lstm.input", TORCH_FN((&torch_npu::lstm)));
  m.impl("binary_cross_entropy", TORCH_FN((&torch_npu::refuse_binary_cross_entropy)));
}

}  // namespace torch_npu
