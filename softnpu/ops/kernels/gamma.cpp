// Random numbers of the gamma distributions, by the algorithms of ATen. These reject some of the numbers that they draw, so that
// each element has a sequence of its own.
#include <ATen/native/Distributions.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>

#include "kernels.h"
#include "ops/kernels/random_fill.h"

namespace softnpu::ops::kernels {
namespace {

// The index of an element is part of its seed.
Sequence sequence_of(int64_t seed, int64_t offset, int64_t element) {
  return Sequence({uint64_t(seed) + 0x9E3779B97F4A7C15 * uint64_t(element + 1), uint64_t(offset)});
}

double next_normal(Sequence& sequence) {
  const double radius = std::sqrt(-2 * std::log(sequence.next_fraction()));
  return radius * std::cos(6.283185307179586 * sequence.next_fraction());
}

template <class Draw>
at::Tensor draw_each(const at::Tensor& like, int64_t seed, int64_t offset, Draw draw) {
  at::Tensor result = at::empty(like.sizes(), at::TensorOptions(at::kDouble));
  double* data = result.mutable_data_ptr<double>();
  at::parallel_for(0, result.numel(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Sequence sequence = sequence_of(seed, offset, i);
      data[i] = draw(i, sequence);
    }
  });
  return result;
}

// Gamma numbers of scale 1, none below `smallest`.
at::Tensor gammas(const at::Tensor& alphas, int64_t seed, int64_t offset, double smallest) {
  const at::Tensor shapes = alphas.to(at::kDouble).contiguous();
  const double* shape = shapes.const_data_ptr<double>();
  return draw_each(shapes, seed, offset, [&](int64_t i, Sequence& sequence) {
    const auto fraction = [&] { return sequence.next_fraction(); };
    const auto normal = [&] { return next_normal(sequence); };
    BaseSampler<double, decltype(fraction)> fractions(fraction);
    BaseSampler<double, decltype(normal)> normals(normal);
    return std::max(smallest, sample_gamma<double, double>(shape[i], fractions, normals));
  });
}

}  // namespace

void standard_gamma(const at::Tensor& self, int64_t seed, int64_t offset, at::Tensor& out) {
  const bool single = self.scalar_type() == at::kFloat;
  out.copy_(gammas(self, seed, offset, single ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min()));
}

void dirichlet(const at::Tensor& self, int64_t seed, int64_t offset, at::Tensor& out) {
  const at::Tensor parts = gammas(self, seed, offset, std::numeric_limits<double>::min());
  const bool single = self.scalar_type() == at::kFloat;
  const double smallest = single ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  out.copy_(parts.div(parts.sum(-1, /*keepdim=*/true)).clamp_min_(smallest));
}

void binomial(const at::Tensor& count, const at::Tensor& prob, int64_t seed, int64_t offset, at::Tensor& out) {
  const at::Tensor counts = count.to(at::kDouble).expand(out.sizes()).contiguous();
  const at::Tensor probabilities = prob.to(at::kDouble).expand(out.sizes()).contiguous();
  const double* trials = counts.const_data_ptr<double>();
  const double* probability = probabilities.const_data_ptr<double>();
  out.copy_(draw_each(counts, seed, offset, [&](int64_t i, Sequence& sequence) {
    const auto fraction = [&] { return sequence.next_fraction(); };
    BaseSampler<double, decltype(fraction)> fractions(fraction);
    if (std::isnan(trials[i])) return trials[i];  // the loop of ATen would not end
    return sample_binomial<double, double>(trials[i], probability[i], fractions);
  }));
}

}  // namespace softnpu::ops::kernels
