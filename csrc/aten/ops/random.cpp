// Tensors filled with random numbers: continuous and discrete distributions, integers, permutations.
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include "aten/machinery/device_check.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/philox.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

void check_uniform(at::ScalarType dtype, double from, double to) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "check_uniform_bounds", [&] {
    const auto largest = static_cast<double>(std::numeric_limits<scalar_t>::max());
    const caffe2::TypeMeta type = caffe2::TypeMeta::Make<scalar_t>();
    TORCH_CHECK(std::abs(from) <= largest, "from is out of bounds for ", type);
    TORCH_CHECK(std::abs(to) <= largest, "to is out of bounds for ", type);
    TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
    TORCH_CHECK(to - from <= largest, "uniform_ expects to-from <= std::numeric_limits<", dtype, ">::max(), but found to=", to,
                " and from=", from, " which result in to-from to exceed the limit");
  });
}

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator) {
  check_uniform(c10::toRealValueType(self.scalar_type()), from, to);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceUniform(self.is_complex() ? at::view_as_real(self) : self, from, to, philox.seed, philox.offset);
  return self;
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, OptionalGenerator generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  check_random_dtype(!self.is_complex(), "bernoulli_scalar_cpu_", self);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceBernoulli(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  check_random_dtype(p.is_floating_point(), "bernoulli_tensor_cpu_p_", p);
  if (!at::is_expandable_to(p.sizes(), self.sizes())) (void)p.expand(self.sizes());  // throws PyTorch's error
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceBernoulliTensor(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& bernoulli_out(const at::Tensor& self, OptionalGenerator generator, at::Tensor& out) {
  out.resize_(self.sizes());
  return bernoulli_tensor(out, self, std::move(generator));
}

at::Tensor& exponential_(at::Tensor& self, double lambd, OptionalGenerator generator) {
  TORCH_CHECK(lambd > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambd);
  TORCH_CHECK(self.is_floating_point(),
              "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you ",
              "specified ", self.scalar_type());
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnSimThreadExponential(self, self.numel(), lambd, philox.seed, philox.offset);
  return self;
}

at::Tensor& geometric_(at::Tensor& self, double p, OptionalGenerator generator) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  check_random_dtype(!self.is_complex() && self.scalar_type() != at::kBool, "geometric_cpu", self);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnSoftGeometric(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  check_random_dtype(self.is_floating_point() && !c10::isFloat8Type(self.scalar_type()), "log_normal_cpu", self);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnSoftLogNormal(self, mean, std, philox.seed, philox.offset);
  return self;
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, OptionalGenerator generator) {
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  TORCH_CHECK(self.is_floating_point(),
              "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified ",
              self.dtype());
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnSoftCauchy(self, median, sigma, philox.seed, philox.offset);
  return self;
}

// ---- integers ----

// One past the largest n such that `dtype` holds every integer up to n.
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
    case at::kUInt16:
      return int64_t{1} << 16;
    case at::kUInt32:
      return int64_t{1} << 32;
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
  int64_t limit = to.value_or(default_limit(self.scalar_type()));
  if (to.has_value() && self.is_floating_point()) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "random_update_from_to", [&] {
      from = at::native::templates::update_from<scalar_t>(from);
      limit = at::native::templates::update_to<scalar_t>(limit);
    });
  }
  TORCH_CHECK(from < limit, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", limit);
  if (to.has_value()) at::native::templates::check_from_to_in_range(from, limit - 1, self.dtype());
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceRandom(self, from, limit, philox.seed, philox.offset);
  return self;
}

at::Tensor& random_to(at::Tensor& self, int64_t to, OptionalGenerator generator) {
  return random_from_to(self, 0, to, std::move(generator));
}

at::Tensor& random_(at::Tensor& self, OptionalGenerator generator) {
  check_random_dtype(!self.is_complex(), "random_kernel_cpu", self);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceRandomWithoutFromTo(self, philox.seed, philox.offset);
  return self;
}

at::Tensor& randperm_out(int64_t n, OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  TORCH_CHECK(n <= default_limit(out.scalar_type()), "n is too large for ", out.scalar_type());
  const DeviceScope scope(out);
  out.resize_({n});
  const Philox philox = draw(generator, out);
  call::aclnnRandperm(n, philox.seed, philox.offset, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", TORCH_FN(uniform_));
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_float));
  m.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor));
  m.impl("bernoulli.out", TORCH_FN(DeviceChecked<&bernoulli_out>::call));
  m.impl("exponential_", TORCH_FN(exponential_));
  m.impl("geometric_", TORCH_FN(geometric_));
  m.impl("log_normal_", TORCH_FN(log_normal_));
  m.impl("cauchy_", TORCH_FN(cauchy_));
  m.impl("random_", TORCH_FN(random_));
  m.impl("random_.to", TORCH_FN(random_to));
  m.impl("random_.from", TORCH_FN(random_from_to));
  m.impl("randperm.generator_out", TORCH_FN(randperm_out));
}

}  // namespace torch_npu
