// Random numbers: the generator gives seed and offset, the device draws. Same seed, same bits, whatever ran beside it.
#include <ATen/ExpandUtils.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include "acl/symbol.h"
#include "aclnn/aclnn_soft_philox.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/exact.h"
#include "aten/machinery/infer.h"
#include "core/generator.h"
#include "core/graph/graph.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using OptionalGenerator = std::optional<at::Generator>;

using ReadPhilox = decltype(&aclnnSoftReadPhilox);

ReadPhilox find_read_philox() {
  static const auto function = reinterpret_cast<ReadPhilox>(acl::find_op_symbol("aclnnSoftReadPhilox"));
  TORCH_CHECK_NOT_IMPLEMENTED(
      function != nullptr, "the device library cannot draw random numbers anew with each replay of a graph; draw them outside ",
      "of the capture, into a tensor that the graph reads");
  return function;
}

// Seed and offset for one launch, which follows. Captured, each replay takes them from where the graph says.
struct Philox {
  int64_t seed;
  int64_t offset;
  const void* state = nullptr;  // where that is

  Philox(uint64_t seed, uint64_t offset, const void* state = nullptr)
      : seed(static_cast<int64_t>(seed)), offset(static_cast<int64_t>(offset)), state(state) {}
  Philox(const Philox&) = delete;
  Philox& operator=(const Philox&) = delete;
  // After the launch.
  ~Philox() noexcept(false) {
    if (state == nullptr || std::uncaught_exceptions() > exceptions_) return;
    acl::check(
        find_read_philox()(getCurrentNPUStream().stream(), static_cast<uint64_t>(seed), static_cast<uint64_t>(offset), state),
        "aclnnSoftReadPhilox");
  }

 private:
  int exceptions_ = std::uncaught_exceptions();
};

bool is_given(const OptionalGenerator& generator) { return generator.has_value() && generator->defined(); }

// A generator of npu alone brings a call here, whatever the tensor's device is.
void check_device(const OptionalGenerator& generator, const at::Tensor& tensor) {
  if (!is_given(generator)) return;
  const c10::Device found = generator->device(), expected = tensor.device();
  TORCH_CHECK(found.type() == expected.type(), "Expected a '", expected.type(), "' device type for generator but found '",
              found.type(), "'");
  TORCH_CHECK(found == expected, "Expected a generator of ", expected, ", the device of the tensor, but found a generator of ",
              found, ". Make it by torch.Generator(device=\"", expected, "\").");
}

// For one launch on the device of a tensor: every element may take four numbers.
Philox draw(const OptionalGenerator& generator, const at::Tensor& tensor) {
  check_device(generator, tensor);
  const at::Generator& source = is_given(generator) ? *generator : getDefaultNPUGenerator();
  if (captures_exist()) [[unlikely]] {
    if (NPUGraph* graph = NPUGraph::capturing(getCurrentNPUStream())) {
      find_read_philox();
      const NPUGraph::Draw drawn = graph->draw(source, 4);
      return {drawn.seed, drawn.offset, tensor.numel() > 0 ? drawn.state : nullptr};
    }
  }
  const auto [seed, offset] = philox(*at::check_generator<NPUGeneratorImpl>(source), 4);
  return {seed, offset};
}

// Nothing is drawn for an empty tensor, and CPU does not ask for its dtype then.
void check_dtype(bool fine, const char* kernel, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(fine || tensor.numel() == 0, '"', kernel, "\" not implemented for '", tensor.scalar_type(), "'");
}

bool has_normal(const at::Tensor& tensor) { return tensor.is_floating_point() && !c10::isFloat8Type(tensor.scalar_type()); }

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

void check_deviations(const at::Tensor& std) {
  TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
  TORCH_CHECK(std.numel() == 0 || std.min().ge(0).item<bool>(), "normal expects all elements of std >= 0.0");
}

// ---- in place ----

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator) {
  check_uniform(c10::toRealValueType(self.scalar_type()), from, to);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceUniform(self.is_complex() ? at::view_as_real(self) : self, from, to, philox.seed, philox.offset);
  return self;
}

// The device takes mean and deviation in float32, so that for float64 what is wider is applied here.
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
  check_dtype(has_normal(self) || self.is_complex(), "normal_kernel_cpu", self);
  const DeviceScope scope(self);
  if (self.is_complex()) {
    // The variance of a complex number is shared by its two parts.
    fill_normal(at::view_as_real(self), mean, std / std::sqrt(2.0), generator);
  } else {
    fill_normal(self, mean, std, generator);
  }
  return self;
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, OptionalGenerator generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  check_dtype(!self.is_complex(), "bernoulli_scalar_cpu_", self);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceBernoulli(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  check_dtype(p.is_floating_point(), "bernoulli_tensor_cpu_p_", p);
  if (!at::is_expandable_to(p.sizes(), self.sizes())) (void)p.expand(self.sizes());  // which says why not
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
  check_dtype(!self.is_complex() && self.scalar_type() != at::kBool, "geometric_cpu", self);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnSoftGeometric(self, p, philox.seed, philox.offset);
  return self;
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  check_dtype(self.is_floating_point(), "log_normal_cpu", self);
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
  check_dtype(!self.is_complex(), "random_kernel_cpu", self);
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

// ---- distributions with tensor parameters ----

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator) {
  check_deviations(std);
  check_dtype(has_normal(mean), "normal_kernel_cpu", mean);
  check_device(generator, mean);
  const DeviceScope scope(mean, std);
  auto [out] = allocate(Outputs<1>{sized(at::infer_size_dimvector(mean.sizes(), std.sizes()), mean.options())});
  const Philox philox = draw(generator, out);
  call::aclnnNormalTensorTensor(mean, std, philox.seed, philox.offset, out);
  return out;
}

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, OptionalGenerator generator) {
  TORCH_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  check_dtype(has_normal(mean), "normal_kernel_cpu", mean);
  const DeviceScope scope(mean);
  if (is_wider_than_float(mean, {std})) return normal_tensor_tensor(mean, at::full_like(mean, std), std::move(generator));
  auto [out] = allocate(infer::dense_like_self(mean));
  const Philox philox = draw(generator, mean);
  call::aclnnNormalTensorFloat(mean, static_cast<float>(std), philox.seed, philox.offset, out);
  return out;
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, OptionalGenerator generator) {
  check_deviations(std);
  check_dtype(has_normal(std), "normal_kernel_cpu", std);
  const DeviceScope scope(std);
  if (is_wider_than_float(std, {mean})) return normal_tensor_tensor(at::full_like(std, mean), std, std::move(generator));
  auto [out] = allocate(infer::dense_like_self(std));
  const Philox philox = draw(generator, std);
  call::aclnnNormalFloatTensor(static_cast<float>(mean), std, philox.seed, philox.offset, out);
  return out;
}

// CPU too draws into a tensor of its own dtype, whatever `out` had inside.
at::Tensor& store_normal(const at::Tensor& drawn, at::Tensor& out) {
  check_dtype(has_normal(out) || out.is_complex(), "normal_kernel_cpu", out);
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

at::Tensor& multinomial_out(const at::Tensor& self, int64_t samples, bool replacement, OptionalGenerator generator,
                            at::Tensor& out) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  constexpr int64_t kMostCategories = int64_t{1} << 24;  // what float32 counts without a gap
  TORCH_CHECK(self.size(-1) <= kMostCategories, "number of categories cannot exceed 2^24");
  TORCH_CHECK(replacement || samples <= self.size(-1), "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  check_dtype(!c10::isFloat8Type(self.scalar_type()), "aminmax_cpu", self);
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

// ---- dropout ----

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(0 <= p && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const DeviceScope scope(input);
  if (p == 0 || !train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::ones(input.sizes(), input.options().dtype(at::kBool))};
  }
  TORCH_CHECK(input.is_floating_point() || input.is_complex(), "result type Float can't be cast to the desired output type ",
              input.scalar_type());
  auto [out, mask] = allocate(Outputs<2>{like(input), like(input, at::kBool)});
  const Philox philox = draw(std::nullopt, input);
  call::aclnnSoftDropout(input, p, philox.seed, philox.offset, out, mask);
  return {std::move(out), std::move(mask)};
}

at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  const DeviceScope scope(grad_output);
  const bool whole = at::isIntegralType(grad_output.scalar_type(), /*includeBool=*/true);
  auto [out] =
      allocate(Outputs<1>{like(grad_output, whole ? c10::get_default_dtype_as_scalartype() : grad_output.scalar_type())});
  call::aclnnSoftDropoutBackward(grad_output, mask, scale, out);
  return out;
}

// ---- leaky relu with a random slope, which `noise` keeps for the backward pass ----

void check_noise(const at::Tensor& self, const at::Tensor& noise) {
  TORCH_CHECK(self.sizes() == noise.sizes(), "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                                 bool training, OptionalGenerator generator, at::Tensor& out) {
  check_noise(self, noise);
  const DeviceScope scope(self);
  prepare_output(out, like(self));
  const Philox philox = draw(generator, self);
  call::aclnnRReluWithNoise(self, noise, lower, upper, training, philox.seed, philox.offset, out);
  return out;
}

at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                            bool training, OptionalGenerator generator) {
  const DeviceScope scope(self);
  auto [out] = allocate(Outputs<1>{like(self)});
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}

at::Tensor& rrelu_with_noise_inplace(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                                     bool training, OptionalGenerator generator) {
  check_noise(self, noise);
  const DeviceScope scope(self);
  const Philox philox = draw(generator, self);
  call::aclnnInplaceRReluWithNoise(self, noise, lower, upper, training, philox.seed, philox.offset);
  return self;
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
  m.impl("normal.Tensor_float_out", TORCH_FN(normal_tensor_float_out));
  m.impl("normal.float_Tensor_out", TORCH_FN(normal_float_tensor_out));
  m.impl("normal.Tensor_Tensor_out", TORCH_FN(normal_tensor_tensor_out));
  m.impl("rrelu_with_noise", TORCH_FN(rrelu_with_noise));
  m.impl("rrelu_with_noise.out", TORCH_FN(rrelu_with_noise_out));
  m.impl("rrelu_with_noise_", TORCH_FN(rrelu_with_noise_inplace));
  m.impl("multinomial", TORCH_FN(multinomial));
  m.impl("multinomial.out", TORCH_FN(multinomial_out));
  m.impl("poisson", TORCH_FN(poisson));
  m.impl("_standard_gamma", TORCH_FN(standard_gamma));
  m.impl("_sample_dirichlet", TORCH_FN(sample_dirichlet));
  m.impl("binomial", TORCH_FN(binomial));
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(native_dropout_backward));
}

}  // namespace torch_npu
