#include <ATen/ops/arange.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/range.h>
#include <ATen/ops/repeat.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>

#include <cmath>

#include "kernels.h"

namespace softnpu::ops::kernels {
namespace {

// If the size is given, ATen writes that many elements and does not check the counts.
void check_repeats(const at::Tensor& repeats) {
  TORCH_CHECK(repeats.numel() == 0 || repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
}

void check_step(const at::Scalar& step, const at::Tensor& out) {
  const bool vanishes = at::isIntegralType(out.scalar_type(), /*includeBool=*/true) && std::abs(step.toDouble()) < 1;
  TORCH_CHECK(!vanishes, "a step of ", step, " is 0 in ", out.dtype());
}

}  // namespace

void split_with_size(const at::Tensor& self, at::IntArrayRef splitSize, int64_t dim, at::TensorList out) {
  TORCH_CHECK(out.size() == splitSize.size(), "out has ", out.size(), " tensors for ", splitSize.size(), " parts");
  int64_t start = 0;
  for (size_t part = 0; part < out.size(); ++part) {
    out[part].copy_(self.narrow(dim, start, splitSize[part]));
    start += splitSize[part];
  }
}

// Views the output with a pair of dimensions [repeats, size] per dimension, and fills it with one copy of the expanded input.
void repeat(const at::Tensor& self, at::IntArrayRef repeats, at::Tensor& out) {
  const int64_t extra = int64_t(repeats.size()) - self.dim();
  TORCH_CHECK(extra >= 0, "repeats has ", repeats.size(), " numbers for ", self.dim(), " dimensions");
  if (!out.is_contiguous()) {
    out.copy_(self.repeat(repeats));
    return;
  }
  std::vector<int64_t> pairs, ones;
  for (int64_t dim = 0; dim < int64_t(repeats.size()); ++dim) {
    const int64_t size = dim < extra ? 1 : self.size(dim - extra);
    pairs.insert(pairs.end(), {repeats[dim], size});
    ones.insert(ones.end(), {1, size});
  }
  out.view(pairs).copy_(self.reshape(ones).expand(pairs));
}

// ATen's kernels write outside of an output whose dimensions are permuted.
void tril(const at::Tensor& self, int64_t diagonal, at::Tensor& out) {
  if (out.is_contiguous()) {
    at::tril_out(out, self, diagonal);
    return;
  }
  out.copy_(at::tril(self, diagonal));
}

void triu(const at::Tensor& self, int64_t diagonal, at::Tensor& out) {
  if (out.is_contiguous()) {
    at::triu_out(out, self, diagonal);
    return;
  }
  out.copy_(at::triu(self, diagonal));
}

void repeat_interleave(const at::Tensor& self, const at::Tensor& repeats, int64_t outputSize, at::Tensor& out) {
  check_repeats(repeats);
  out.copy_(at::repeat_interleave(self, repeats, std::nullopt, outputSize));
}

void repeat_interleave_with_dim(const at::Tensor& self, const at::Tensor& repeats, int64_t dim, int64_t outputSize,
                                at::Tensor& out) {
  check_repeats(repeats);
  out.copy_(at::repeat_interleave(self, repeats, dim, outputSize));
}

void repeat_interleave_int(const at::Tensor& self, int64_t repeats, int64_t outputSize, at::Tensor& out) {
  out.copy_(at::repeat_interleave(self, repeats, std::nullopt, outputSize));
}

void repeat_interleave_int_with_dim(const at::Tensor& self, int64_t repeats, int64_t dim, int64_t outputSize, at::Tensor& out) {
  out.copy_(at::repeat_interleave(self, repeats, dim, outputSize));
}

void repeat_interleave_tensor(const at::Tensor& repeats, int64_t outputSize, at::Tensor& out) {
  check_repeats(repeats);
  out.copy_(at::repeat_interleave(repeats, std::optional<int64_t>(outputSize)));
}

void kaiser_window(int64_t length, bool periodic, double beta, at::Tensor& out) {
  out.copy_(at::kaiser_window(length, periodic, beta, out.options()));
}

// `pad` holds pairs (before, after), starting with the last dimension. A negative number removes elements.
void constant_pad_nd(const at::Tensor& self, at::IntArrayRef pad, const at::Scalar& value, at::Tensor& out) {
  TORCH_CHECK(pad.size() % 2 == 0 && int64_t(pad.size() / 2) <= self.dim(), "pad has ", pad.size(), " numbers for ", self.dim(),
              " dimensions");
  out.fill_(value);
  at::Tensor source = self;
  at::Tensor target = out;
  for (size_t pair = 0; pair < pad.size() / 2; ++pair) {
    const int64_t dim = self.dim() - 1 - int64_t(pair);
    const int64_t before = pad[2 * pair];
    const int64_t after = pad[2 * pair + 1];
    const int64_t cut_front = std::max<int64_t>(-before, 0);
    const int64_t cut_back = std::max<int64_t>(-after, 0);
    source = source.narrow(dim, cut_front, source.size(dim) - cut_front - cut_back);
    target = target.narrow(dim, std::max<int64_t>(before, 0), source.size(dim));
  }
  target.copy_(source);
}

// ATen divides by the step in the type of the output.
void arange(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  check_step(step, out);
  at::arange_out(out, start, end, step);
}

void range(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  check_step(step, out);
  at::range_out(out, start, end, step);
}

}  // namespace softnpu::ops::kernels
