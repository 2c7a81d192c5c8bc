// Normal distributions.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/float_rounding.h"
#include "aten/machinery/infer.h"
#include "aten/machinery/philox.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

bool has_normal(const at::Tensor& tensor) { return tensor.is_floating_point() && !c10::isFloat8Type(tensor.scalar_type()); }

void check_deviations(const at::Tensor& std) {
  TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
  TORCH_CHECK(std.numel() == 0 || std.min().ge(0).item<bool>(), "normal expects all elements of std >= 0.0");
}

// The device takes mean and deviation in float32. For float64 the plugin applies numbers that float32 would round.
bool is_wider_than_float(const at::Tensor& tensor, std::initializer_list<double> numbers) {
  return tensor.scalar_type() == at::kDouble && rounds_to_float(numbers);
}

void fill_normal(const at::Tensor& self, double mean, double std, const OptionalGenerator& generator) {
  const bool wider = is_wider_than_float(self, {mean, std});
  {
    const Philox philox = draw(generator, self);
    call::aclnnInplaceNormal(self, wider ? 0 : static_cast<float>(mean), wider ? 1 : static_cast<float>(std), philox.seed,
                             philox.offset);
  }
  if (wider) self.mul_(std).add_(mean);
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  check_random_dtype(has_normal(self) || self.is_complex(), "normal_kernel_cpu", self);
  const DeviceScope scope(self);
  if (self.is_complex()) {
    // Each part of a complex number has half of the variance.
    fill_normal(at::view_as_real(self), mean, std / std::sqrt(2.0), generator);
  } else {
    fill_normal(self, mean, std, generator);
  }
  return self;
}

// Complex numbers around `mean`, of one deviation for all.
at::Tensor complex_normal(const at::Tensor& mean, double std, OptionalGenerator generator) {
  at::Tensor out = at::empty_like(mean, mean.options().memory_format(at::MemoryFormat::Contiguous));
  return normal_(out, 0, std, std::move(generator)).add_(mean);
}

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator) {
  check_deviations(std);
  check_random_dtype(has_normal(mean) || mean.is_complex(), "normal_kernel_cpu", mean);
  check_generator_device(generator, mean);
  const DeviceScope scope(mean, std);
  if (mean.is_complex()) {
    const at::Tensor around = mean.expand(at::infer_size_dimvector(mean.sizes(), std.sizes()));
    return complex_normal(at::zeros_like(around), 1, std::move(generator)).mul_(std).add_(mean);
  }
  auto [out] = allocate(Outputs<1>{sized(at::infer_size_dimvector(mean.sizes(), std.sizes()), mean.options())});
  const Philox philox = draw(generator, out);
  call::aclnnNormalTensorTensor(mean, std, philox.seed, philox.offset, out);
  return out;
}

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  check_random_dtype(has_normal(mean) || mean.is_complex(), "normal_kernel_cpu", mean);
  const DeviceScope scope(mean);
  if (mean.is_complex()) return complex_normal(mean, std, std::move(generator));
  if (is_wider_than_float(mean, {std})) return normal_tensor_tensor(mean, at::full_like(mean, std), std::move(generator));
  auto [out] = allocate(infer::dense_like_self(mean));
  const Philox philox = draw(generator, mean);
  call::aclnnNormalTensorFloat(mean, static_cast<float>(std), philox.seed, philox.offset, out);
  return out;
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, OptionalGenerator generator) {
  check_deviations(std);
  check_random_dtype(has_normal(std), "normal_kernel_cpu", std);
  const DeviceScope scope(std);
  if (is_wider_than_float(std, {mean})) return normal_tensor_tensor(at::full_like(std, mean), std, std::move(generator));
  auto [out] = allocate(infer::dense_like_self(std));
  const Philox philox = draw(generator, std);
  call::aclnnNormalFloatTensor(static_cast<float>(mean), std, philox.seed, philox.offset, out);
  return out;
}

// As on the CPU, numbers are drawn in the dtype of the parameters and then cast to that of `out`.
at::Tensor& store_normal(const at::Tensor& drawn, at::Tensor& out) {
  check_random_dtype(has_normal(out) || out.is_complex(), "normal_kernel_cpu", out);
  return store(drawn, out);
}

at::Tensor& normal_tensor_float_out(const at::Tensor& mean, double std, OptionalGenerator generator, at::Tensor& out) {
  return store_normal(normal_tensor_float(mean, std, std::move(generator)), out);
}

at::Tensor& normal_float_tensor_out(double mean, const at::Tensor& std, OptionalGenerator generator, at::Tensor& out) {
  return store_normal(normal_float_tensor(mean, std, std::move(generator)), out);
}

at::Tensor& normal_tensor_tensor_out(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator,
                                     at::Tensor& out) {
  return store_normal(normal_tensor_tensor(mean, std, std::move(generator)), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("normal.Tensor_float", TORCH_FN(normal_tensor_float));
  m.impl("normal.float_Tensor", TORCH_FN(normal_float_tensor));
  m.impl("normal.Tensor_Tensor", TORCH_FN(normal_tensor_tensor));
  m.impl("normal.Tensor_float_out", TORCH_FN(normal_tensor_float_out));
  m.impl("normal.float_Tensor_out", TORCH_FN(normal_float_tensor_out));
  m.impl("normal.Tensor_Tensor_out", TORCH_FN(normal_tensor_tensor_out));
}

}  // namespace torch_npu
