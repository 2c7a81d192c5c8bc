// Random numbers: the generator gives seed and offset, the device draws. Same seed, same bits, whatever ran beside it.
#include <ATen/ops/ones.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include "aten/device_scope.h"
#include "aten/infer.h"
#include "core/generator.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using OptionalGenerator = std::optional<at::Generator>;

struct Philox {
  int64_t seed;
  int64_t offset;
};

// For one launch: every element may take four numbers.
Philox draw(const OptionalGenerator& generator) {
  auto* source = at::get_generator_or_default<NPUGeneratorImpl>(generator, getDefaultNPUGenerator());
  const auto [seed, offset] = source->philox(4);
  return {static_cast<int64_t>(seed), static_cast<int64_t>(offset)};
}

// ---- in place ----

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator) {
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || self.is_complex(), "uniform_ is not implemented for ",
              self.scalar_type());
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnInplaceUniform(self, from, to, philox.seed, philox.offset);
  return self;
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  if (self.is_complex()) {
    const at::Tensor parts = at::view_as_real(self);
    // The variance of a complex number is shared by its two parts.
    call::aclnnInplaceNormal(parts, static_cast<float>(mean), static_cast<float>(std / std::sqrt(2.0)), philox.seed,
                             philox.offset);
    return self;
  }
  call::aclnnInplaceNormal(self, static_cast<float>(mean), static_cast<float>(std), philox.seed, philox.offset);
  return self;
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, OptionalGenerator generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnInplaceBernoulli(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnInplaceBernoulliTensor(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& bernoulli_out(const at::Tensor& self, OptionalGenerator generator, at::Tensor& out) {
  out.resize_(self.sizes());
  return bernoulli_tensor(out, self, std::move(generator));
}

at::Tensor& exponential_(at::Tensor& self, double lambd, OptionalGenerator generator) {
  TORCH_CHECK(lambd > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambd);
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnSimThreadExponential(self, self.numel(), lambd, philox.seed, philox.offset);
  return self;
}

at::Tensor& geometric_(at::Tensor& self, double p, OptionalGenerator generator) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnSoftGeometric(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnSoftLogNormal(self, mean, std, philox.seed, philox.offset);
  return self;
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, OptionalGenerator generator) {
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnSoftCauchy(self, median, sigma, philox.seed, philox.offset);
  return self;
}

// ---- integers ----

// One past the largest integer that `dtype` counts without a gap.
int64_t default_limit(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return 2;
    case at::kByte:
      return int64_t{1} << 8;
    case at::kChar:
      return int64_t{1} << 7;
    case at::kShort:
      return int64_t{1} << 15;
    case at::kInt:
      return int64_t{1} << 31;
    case at::kHalf:
      return (int64_t{1} << 11) + 1;
    case at::kBFloat16:
      return (int64_t{1} << 8) + 1;
    case at::kFloat:
      return (int64_t{1} << 24) + 1;
    case at::kDouble:
      return (int64_t{1} << 53) + 1;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

at::Tensor& random_from_to(at::Tensor& self, int64_t from, std::optional<int64_t> to, OptionalGenerator generator) {
  const int64_t limit = to.value_or(default_limit(self.scalar_type()));
  TORCH_CHECK(from < limit, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", limit);
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnInplaceRandom(self, from, limit, philox.seed, philox.offset);
  return self;
}

at::Tensor& random_to(at::Tensor& self, int64_t to, OptionalGenerator generator) {
  return random_from_to(self, 0, to, std::move(generator));
}

at::Tensor& random_(at::Tensor& self, OptionalGenerator generator) {
  const DeviceScope scope(self);
  const Philox philox = draw(generator);
  call::aclnnInplaceRandomWithoutFromTo(self, philox.seed, philox.offset);
  return self;
}

at::Tensor& randperm_out(int64_t n, OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  TORCH_CHECK(n <= default_limit(out.scalar_type()), "n is too large for ", out.scalar_type());
  const DeviceScope scope(out);
  out.resize_({n});
  const Philox philox = draw(generator);
  call::aclnnRandperm(n, philox.seed, philox.offset, out);
  return out;
}

// ---- distributions with tensor parameters ----

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  const DeviceScope scope(mean);
  auto [out] = allocate(Outputs<1>{like(mean)});
  const Philox philox = draw(generator);
  call::aclnnNormalTensorFloat(mean, static_cast<float>(std), philox.seed, philox.offset, out);
  return out;
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, OptionalGenerator generator) {
  const DeviceScope scope(std);
  auto [out] = allocate(Outputs<1>{like(std)});
  const Philox philox = draw(generator);
  call::aclnnNormalFloatTensor(static_cast<float>(mean), std, philox.seed, philox.offset, out);
  return out;
}

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator) {
  const DeviceScope scope(mean, std);
  auto [out] = allocate(infer::promoted(mean, std));
  const Philox philox = draw(generator);
  call::aclnnNormalTensorTensor(mean, std, philox.seed, philox.offset, out);
  return out;
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t samples, bool replacement, OptionalGenerator generator,
                            at::Tensor& out) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || samples <= self.size(-1), "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  const DeviceScope scope(self);
  if (self.dim() == 1) {
    out.resize_({samples});
  } else {
    out.resize_({self.size(0), samples});
  }
  const Philox philox = draw(generator);
  call::aclnnMultinomial(self, samples, replacement, philox.seed, philox.offset, out);
  return out;
}

at::Tensor multinomial(const at::Tensor& self, int64_t samples, bool replacement, OptionalGenerator generator) {
  const DeviceScope scope(self);
  at::Tensor out = empty({0}, at::kLong);
  return multinomial_out(self, samples, replacement, std::move(generator), out);
}

at::Tensor poisson(const at::Tensor& self, OptionalGenerator generator) {
  const DeviceScope scope(self);
  auto [out] = allocate(Outputs<1>{like(self)});
  const Philox philox = draw(generator);
  call::aclnnSoftPoisson(self, philox.seed, philox.offset, out);
  return out;
}

// ---- dropout ----

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(0 <= p && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const DeviceScope scope(input);
  if (p == 0 || !train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::ones(input.sizes(), input.options().dtype(at::kBool))};
  }
  auto [out, mask] = allocate(Outputs<2>{like(input), like(input, at::kBool)});
  const Philox philox = draw(std::nullopt);
  call::aclnnSoftDropout(input, p, philox.seed, philox.offset, out, mask);
  return {std::move(out), std::move(mask)};
}

at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  const DeviceScope scope(grad_output);
  auto [out] = allocate(Outputs<1>{like(grad_output)});
  call::aclnnSoftDropoutBackward(grad_output, mask, scale, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", TORCH_FN(uniform_));
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_float));
  m.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor));
  m.impl("bernoulli.out", TORCH_FN(bernoulli_out));
  m.impl("exponential_", TORCH_FN(exponential_));
  m.impl("geometric_", TORCH_FN(geometric_));
  m.impl("log_normal_", TORCH_FN(log_normal_));
  m.impl("cauchy_", TORCH_FN(cauchy_));
  m.impl("random_", TORCH_FN(random_));
  m.impl("random_.to", TORCH_FN(random_to));
  m.impl("random_.from", TORCH_FN(random_from_to));
  m.impl("randperm.generator_out", TORCH_FN(randperm_out));
  m.impl("normal.Tensor_float", TORCH_FN(normal_tensor_float));
  m.impl("normal.float_Tensor", TORCH_FN(normal_float_tensor));
  m.impl("normal.Tensor_Tensor", TORCH_FN(normal_tensor_tensor));
  m.impl("multinomial", TORCH_FN(multinomial));
  m.impl("multinomial.out", TORCH_FN(multinomial_out));
  m.impl("poisson", TORCH_FN(poisson));
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(native_dropout_backward));
}

}  // namespace torch_npu
