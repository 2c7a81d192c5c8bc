#include <ATen/Dispatch_v2.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels.h"
#include "ops/kernels/random_fill.h"

namespace softnpu::ops::kernels {
namespace {

template <class T>
void fill_uniform(at::Tensor& tensor, double from, double to, Stream stream) {
  T* data = tensor.mutable_data_ptr<T>();
  if constexpr (std::is_same_v<T, double>) {
    fill_from_longs(data, tensor.numel(), stream,
                    [=](uint64_t bits) { return double(bits >> 11) * 0x1p-53 * (to - from) + from; });
  } else {
    const float start = float(from);
    const float range = float(to - from) * 0x1p-24f;
    const T first(start), end{float(to)};
    fill_from_words(data, tensor.numel(), stream, [=](uint32_t word) {
      const T value(float(word >> 8) * range + start);
      return value == end ? first : value;  // rounding may give `end`
    });
  }
}

// A standard normal tensor of the given shape in float32, or float64 for a float64 tensor.
at::Tensor standard_normal(const at::Tensor& like, Stream stream) {
  const bool wide = like.scalar_type() == at::kDouble;
  at::Tensor result =
      at::empty(like.sizes(), like.options().dtype(wide ? at::kDouble : at::kFloat).memory_format(at::MemoryFormat::Contiguous));
  if (wide) {
    fill_normals(result.mutable_data_ptr<double>(), result.numel(), stream);
  } else {
    fill_normals(result.mutable_data_ptr<float>(), result.numel(), stream);
  }
  return result;
}

// Fills with f(x) for a random double x in (0, 1) per element.
template <class F>
void fill_by_fraction(at::Tensor& selfRef, Stream stream, F f) {
  with_dense(selfRef, [&](at::Tensor& tensor) {
    AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, tensor.scalar_type(), "random", [&] {
      fill_from_longs(tensor.mutable_data_ptr<scalar_t>(), tensor.numel(), stream,
                      [&](uint64_t bits) { return static_cast<scalar_t>(f((double(bits >> 12) + 0.5) * 0x1p-52)); });
    });
  });
}

// For more values the remainder of 32 random bits would prefer small values.
constexpr uint64_t kWideRange = uint64_t(1) << 24;

// Random values in [from, from + range). A range of 0 means all 64 bits.
void fill_integers(at::Tensor& selfRef, uint64_t from, uint64_t range, Stream stream) {
  with_dense(selfRef, [&](at::Tensor& tensor) {
    const auto fill = [&]<class T>(T* data) {
      if (range != 0 && range <= kWideRange) {
        fill_from_words(data, tensor.numel(), stream,
                        [from, range = uint32_t(range)](uint32_t word) { return static_cast<T>(int64_t(from + word % range)); });
        return;
      }
      fill_from_longs(data, tensor.numel(), stream,
                      [=](uint64_t bits) { return static_cast<T>(int64_t(from + (range == 0 ? bits : bits % range))); });
    };
    AT_DISPATCH_V2(tensor.scalar_type(), "random_", AT_WRAP([&] { fill(tensor.mutable_data_ptr<scalar_t>()); }),
                   AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf, at::kBFloat16, at::kBool);
  });
}

// The number of consecutive integers from 0 that the type represents exactly.
uint64_t whole_range(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return (uint64_t(1) << 11) + 1;
    case at::kBFloat16:
      return (uint64_t(1) << 8) + 1;
    case at::kFloat:
      return (uint64_t(1) << 24) + 1;
    case at::kDouble:
      return (uint64_t(1) << 53) + 1;
    case at::kBool:
      return 2;
    case at::kByte:
    case at::kUInt16:
    case at::kUInt32:
      return uint64_t(1) << (8 * c10::elementSize(type));
    case at::kUInt64:
      return 0;
    default:
      return uint64_t(1) << (8 * c10::elementSize(type) - 1);
  }
}

// The number of the 2^32 words that are below a probability.
uint64_t threshold_of(double probability) {
  TORCH_CHECK(probability >= 0 && probability <= 1, "a probability has to be between 0 and 1, it is ", probability);
  return uint64_t(std::ceil(probability * 0x1p32));
}

// From this rate on rejection is faster than counting. Its constants are valid for rates of at least 10.
constexpr double kRejectionRate = 10;

// The number of exponentially distributed waiting times that fit into `rate`.
double count_waits(double rate, Sequence& sequence) {
  double events = 0;
  const double limit = std::exp(-rate);
  for (double product = sequence.next_fraction(); product > limit; product *= sequence.next_fraction()) ++events;
  return events;
}

// Hoermann, "The transformed rejection method for generating Poisson random variables" (1993), algorithm PTRS. The cost does not
// depend on the rate.
double reject_until_poisson(double rate, Sequence& sequence) {
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double accepted_at_once = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = sequence.next_fraction() - 0.5;
    const double v = sequence.next_fraction();
    const double distance = 0.5 - std::abs(u);
    const double events = std::floor((2 * a / distance + b) * u + rate + 0.43);
    if (distance >= 0.07 && v <= accepted_at_once) return events;
    if (events < 0 || (distance < 0.013 && v > distance)) continue;
    const double height = std::log(v * inverse_alpha / (a / (distance * distance) + b));
    if (height <= events * std::log(rate) - rate - std::lgamma(events + 1)) return events;
  }
}

double next_poisson(double rate, Sequence& sequence) {
  if (std::isinf(rate)) return rate;
  return rate < kRejectionRate ? count_waits(rate, sequence) : reject_until_poisson(rate, sequence);
}

}  // namespace

void fill_normals(double* data, int64_t elements, Stream stream) {
  // Two numbers use four words. The last element also gets a whole pair.
  for_words(stream, (elements + 1) / 2, 4, [&](int64_t first, int64_t count, const Words& words) {
    for (int64_t pair = 0; pair < count; ++pair) {
      const uint32_t* word = words.data() + 4 * pair;
      const double u = (double((uint64_t(word[0]) << 32 | word[1]) >> 12) + 0.5) * 0x1p-52;
      const double angle = double((uint64_t(word[2]) << 32 | word[3]) >> 11) * 0x1p-53 * 6.283185307179586;
      const double radius = std::sqrt(-2 * std::log(u));
      const int64_t place = 2 * (first + pair);
      data[place] = radius * std::cos(angle);
      if (place + 1 < elements) data[place + 1] = radius * std::sin(angle);
    }
  });
}

void uniform(at::Tensor& selfRef, double from, double to, uint64_t seed, uint64_t offset) {
  TORCH_CHECK(from <= to, "uniform wants from <= to, it got ", from, " and ", to);
  with_dense(selfRef, [&](at::Tensor& tensor) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "uniform", [&] {
      fill_uniform<scalar_t>(tensor, from, to, {seed, offset});
    });
  });
}

void normal(at::Tensor& selfRef, double mean, double std, int64_t seed, int64_t offset) {
  TORCH_CHECK(std >= 0, "normal wants std >= 0, it got ", std);
  if (selfRef.scalar_type() == at::kFloat && selfRef.is_contiguous()) {
    float* data = selfRef.mutable_data_ptr<float>();
    const float scale = float(std);
    const float shift = float(mean);
    for_words(stream_of(seed, offset), selfRef.numel(), 1, [&](int64_t first, int64_t count, const Words& words) {
      const auto values = normals_of(words);
      for (int64_t i = 0; i < count; ++i) data[first + i] = values[size_t(i)] * scale + shift;
    });
    return;
  }
  selfRef.copy_(standard_normal(selfRef, stream_of(seed, offset)).mul_(std).add_(mean));
}

void normal_float_float(double mean, double std, int64_t seed, int64_t offset, at::Tensor& out) {
  normal(out, mean, std, seed, offset);
}

void normal_float_tensor(double mean, const at::Tensor& std, int64_t seed, int64_t offset, at::Tensor& out) {
  out.copy_(standard_normal(out, stream_of(seed, offset)).mul_(std).add_(mean));
}

void normal_tensor_float(const at::Tensor& mean, double std, int64_t seed, int64_t offset, at::Tensor& out) {
  out.copy_(standard_normal(out, stream_of(seed, offset)).mul_(std).add_(mean));
}

void normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, int64_t seed, int64_t offset, at::Tensor& out) {
  out.copy_(standard_normal(out, stream_of(seed, offset)).mul_(std).add_(mean));
}

void bernoulli(at::Tensor& selfRef, const at::Scalar& prob, int64_t seed, int64_t offset) {
  const uint64_t threshold = threshold_of(prob.toDouble());
  with_dense(selfRef, [&](at::Tensor& tensor) {
    AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, tensor.scalar_type(), "bernoulli", [&] {
      fill_from_words(tensor.mutable_data_ptr<scalar_t>(), tensor.numel(), stream_of(seed, offset),
                      [=](uint32_t word) { return static_cast<scalar_t>(word < threshold); });
    });
  });
}

void bernoulli_tensor(at::Tensor& selfRef, const at::Tensor& prob, int64_t seed, int64_t offset) {
  const at::Tensor probabilities = prob.to(at::kDouble).expand(selfRef.sizes()).contiguous();
  const double* probability = probabilities.const_data_ptr<double>();
  with_dense(selfRef, [&](at::Tensor& tensor) {
    AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, tensor.scalar_type(), "bernoulli", [&] {
      scalar_t* data = tensor.mutable_data_ptr<scalar_t>();
      for_words(stream_of(seed, offset), tensor.numel(), 1, [&](int64_t first, int64_t count, const Words& words) {
        for (int64_t i = 0; i < count; ++i) {
          data[first + i] = static_cast<scalar_t>(words[size_t(i)] < threshold_of(probability[first + i]));
        }
      });
    });
  });
}

void random(at::Tensor& selfRef, int64_t from, int64_t to, int64_t seed, int64_t offset) {
  TORCH_CHECK(from < to, "random wants from < to, it got ", from, " and ", to);
  fill_integers(selfRef, uint64_t(from), uint64_t(to) - uint64_t(from), stream_of(seed, offset));
}

void random_without_from_to(at::Tensor& selfRef, int64_t seed, int64_t offset) {
  fill_integers(selfRef, 0, whole_range(selfRef.scalar_type()), stream_of(seed, offset));
}

void randperm(int64_t n, int64_t seed, int64_t offset, at::Tensor& out) {
  TORCH_CHECK(out.numel() == n, "out has ", out.numel(), " elements for a permutation of ", n);
  at::Tensor order = at::empty({n}, at::TensorOptions(at::kLong));
  int64_t* data = order.mutable_data_ptr<int64_t>();
  std::iota(data, data + n, 0);
  Sequence sequence(stream_of(seed, offset));
  for (int64_t i = 0; i + 1 < n; ++i) std::swap(data[i], data[i + int64_t(sequence.next_long() % uint64_t(n - i))]);
  out.copy_(order.view_as(out));
}

void exponential(at::Tensor& selfRef, int64_t, double lambda, int64_t seed, int64_t offset) {
  TORCH_CHECK(lambda > 0, "exponential wants lambda > 0, it got ", lambda);
  fill_by_fraction(selfRef, stream_of(seed, offset), [=](double u) { return -std::log(u) / lambda; });
}

void geometric(at::Tensor& selfRef, double p, int64_t seed, int64_t offset) {
  TORCH_CHECK(p > 0 && p < 1, "geometric wants p between 0 and 1, it got ", p);
  const double scale = 1 / std::log1p(-p);
  fill_by_fraction(selfRef, stream_of(seed, offset), [=](double u) { return std::ceil(std::log(u) * scale); });
}

void log_normal(at::Tensor& selfRef, double mean, double std, int64_t seed, int64_t offset) {
  TORCH_CHECK(std > 0, "log_normal wants std > 0, it got ", std);
  selfRef.copy_(standard_normal(selfRef, stream_of(seed, offset)).mul_(std).add_(mean).exp_());
}

void cauchy(at::Tensor& selfRef, double median, double sigma, int64_t seed, int64_t offset) {
  TORCH_CHECK(sigma > 0, "cauchy wants sigma > 0, it got ", sigma);
  fill_by_fraction(selfRef, stream_of(seed, offset),
                   [=](double u) { return median + sigma * std::tan(3.141592653589793 * (u - 0.5)); });
}

void poisson(const at::Tensor& self, int64_t seed, int64_t offset, at::Tensor& out) {
  const at::Tensor rates = self.to(at::kDouble).contiguous();
  at::Tensor result = at::empty_like(rates);
  const double* rate = rates.const_data_ptr<double>();
  double* data = result.mutable_data_ptr<double>();
  TORCH_CHECK(std::all_of(rate, rate + rates.numel(), [](double value) { return value >= 0; }),
              "invalid Poisson rate, expected rate to be non-negative");
  at::parallel_for(0, rates.numel(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // The index of the element is part of the seed, so that each element has a sequence of its own.
      Sequence sequence({uint64_t(seed) + 0x9E3779B97F4A7C15 * uint64_t(i + 1), uint64_t(offset)});
      data[i] = next_poisson(rate[i], sequence);
    }
  });
  out.copy_(result);
}

void multinomial(const at::Tensor& self, int64_t numsamples, bool replacement, int64_t seed, int64_t offset, at::Tensor& out) {
  const at::Tensor weights = (self.dim() == 1 ? self.unsqueeze(0) : self).to(at::kDouble).contiguous();
  const int64_t rows = weights.size(0);
  const int64_t categories = weights.size(1);
  TORCH_CHECK(replacement || numsamples <= categories, "cannot take ", numsamples, " of ", categories, " without replacement");
  at::Tensor picks = at::empty({rows, numsamples}, at::TensorOptions(at::kLong));
  std::vector<double> sums(static_cast<size_t>(categories));
  Sequence sequence(stream_of(seed, offset));
  for (int64_t row = 0; row < rows; ++row) {
    const double* weight = weights.const_data_ptr<double>() + row * categories;
    int64_t* pick = picks.mutable_data_ptr<int64_t>() + row * numsamples;
    for (int64_t k = 0; k < categories; ++k) {
      TORCH_CHECK(weight[k] >= 0 && std::isfinite(weight[k]), "probability tensor contains either `inf`, `nan` or element < 0");
    }
    double total = std::accumulate(weight, weight + categories, 0.0);
    TORCH_CHECK(total > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
    std::partial_sum(weight, weight + categories, sums.begin());
    if (replacement) {
      for (int64_t i = 0; i < numsamples; ++i) {
        const auto found = std::upper_bound(sums.begin(), sums.end(), sequence.next_fraction() * sums.back());
        pick[i] = std::min<int64_t>(found - sums.begin(), categories - 1);
      }
      continue;
    }
    // Each category gets an exponential waiting time with its weight as the rate. The shortest waiting times win.
    std::vector<std::pair<double, int64_t>> waits(static_cast<size_t>(categories));
    for (int64_t k = 0; k < categories; ++k) waits[size_t(k)] = {-std::log(sequence.next_fraction()) / weight[k], k};
    std::partial_sort(waits.begin(), waits.begin() + numsamples, waits.end());
    for (int64_t i = 0; i < numsamples; ++i) {
      TORCH_CHECK(std::isfinite(waits[size_t(i)].first),
                  "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)");
      pick[i] = waits[size_t(i)].second;
    }
  }
  out.copy_(picks.view_as(out));
}

void rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training,
                      int64_t seed, int64_t offset, at::Tensor& out) {
  if (!training) {
    at::leaky_relu_out(out, self, (lower.toDouble() + upper.toDouble()) / 2);
    return;
  }
  uniform(noise, lower.toDouble(), upper.toDouble(), uint64_t(seed), uint64_t(offset));
  noise.masked_fill_(self.gt(0), 1);
  at::mul_out(out, self, noise);
}

void rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training,
                       int64_t seed, int64_t offset) {
  rrelu_with_noise(self, noise, lower, upper, training, seed, offset, self);
}

}  // namespace softnpu::ops::kernels
