// Random numbers whose distribution a tensor describes, other than normal ones: multinomial, Poisson, gamma, Dirichlet, binomial.
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/infer.h"
#include "aten/machinery/philox.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

at::Tensor& multinomial_out(const at::Tensor& self, int64_t samples, bool replacement, OptionalGenerator generator,
                            at::Tensor& out) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  constexpr int64_t kMostCategories = int64_t{1} << 24;  // float32 holds every integer up to this one
  TORCH_CHECK(self.size(-1) <= kMostCategories, "number of categories cannot exceed 2^24");
  TORCH_CHECK(replacement || samples <= self.size(-1), "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  check_random_dtype(!c10::isFloat8Type(self.scalar_type()), "aminmax_cpu", self);
  const DeviceScope scope(self);
  if (self.dim() == 1) {
    out.resize_({samples});
  } else {
    out.resize_({self.size(0), samples});
  }
  const Philox philox = draw(generator, self);
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
  const Philox philox = draw(generator, self);
  call::aclnnSoftPoisson(self, philox.seed, philox.offset, out);
  return out;
}

at::Tensor standard_gamma(const at::Tensor& self, OptionalGenerator generator) {
  const DeviceScope scope(self);
  auto [out] = allocate(infer::dense_like_self(self));
  const Philox philox = draw(generator, self);
  call::aclnnSoftStandardGamma(self, philox.seed, philox.offset, out);
  return out;
}

at::Tensor sample_dirichlet(const at::Tensor& self, OptionalGenerator generator) {
  const DeviceScope scope(self);
  auto [out] = allocate(infer::dense_like_self(self));
  const Philox philox = draw(generator, self);
  call::aclnnSoftDirichlet(self, philox.seed, philox.offset, out);
  return out;
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, OptionalGenerator generator) {
  TORCH_CHECK_VALUE(count.is_floating_point(),
                    "binomial only supports floating-point dtypes for count, got: ", count.scalar_type());
  TORCH_CHECK_VALUE(prob.is_floating_point(), "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  TORCH_CHECK(count.scalar_type() == prob.scalar_type(), "Found dtype ", prob.scalar_type(), " but expected ",
              count.scalar_type());
  const DeviceScope scope(count, prob);
  auto [out] = allocate(infer::dense_like_self(count));
  check_inplace_broadcast(out, prob);
  const Philox philox = draw(generator, count);
  call::aclnnSoftBinomial(count, prob, philox.seed, philox.offset, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("multinomial", TORCH_FN(multinomial));
  m.impl("multinomial.out", TORCH_FN(multinomial_out));
  m.impl("poisson", TORCH_FN(poisson));
  m.impl("_standard_gamma", TORCH_FN(standard_gamma));
  m.impl("_sample_dirichlet", TORCH_FN(sample_dirichlet));
  m.impl("binomial", TORCH_FN(binomial));
}

}  // namespace torch_npu
