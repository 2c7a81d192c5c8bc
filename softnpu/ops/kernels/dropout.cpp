// Dropout. All forms of the operation keep element i if word i of the random sequence is below the probability to keep it.
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "ops/kernels/random_fill.h"

namespace softnpu::ops::kernels {
namespace {

// The number of the 2^32 words that keep an element if it is dropped with probability p.
uint64_t keep_threshold(double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, it is ", p);
  return uint64_t(std::ceil((1 - p) * 0x1p32));
}

double scale_of(double p) { return p == 1 ? 0 : 1 / (1 - p); }

at::Tensor keep_mask(at::IntArrayRef shape, double p, Stream stream) {
  at::Tensor mask = at::empty(shape, at::TensorOptions(at::kBool));
  const uint64_t threshold = keep_threshold(p);
  fill_from_words(mask.mutable_data_ptr<bool>(), mask.numel(), stream, [=](uint32_t word) { return word < threshold; });
  return mask;
}

// One bit per element, the lowest bit of a byte first. Bits after the last element are 0.
void pack(const at::Tensor& mask, at::Tensor& bits) {
  const int64_t elements = mask.numel();
  TORCH_CHECK(bits.is_contiguous() && bits.nbytes() * 8 >= size_t(elements), "a mask of ", elements, " bits does not fit into ",
              bits.nbytes(), " bytes");
  const bool* keep = mask.const_data_ptr<bool>();
  uint8_t* bytes = static_cast<uint8_t*>(bits.mutable_data_ptr());
  std::fill_n(bytes, bits.nbytes(), uint8_t(0));
  for (int64_t i = 0; i < elements; ++i) bytes[i / 8] = uint8_t(bytes[i / 8] | keep[i] << (i % 8));
}

at::Tensor unpack(const at::Tensor& bits, at::IntArrayRef shape) {
  at::Tensor mask = at::empty(shape, at::TensorOptions(at::kBool));
  TORCH_CHECK(bits.is_contiguous() && bits.nbytes() * 8 >= size_t(mask.numel()), "a mask of ", bits.nbytes(),
              " bytes does not cover ", mask.numel(), " elements");
  const uint8_t* bytes = static_cast<const uint8_t*>(bits.const_data_ptr());
  bool* keep = mask.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < mask.numel(); ++i) keep[i] = bytes[i / 8] >> (i % 8) & 1;
  return mask;
}

}  // namespace

void soft_dropout(const at::Tensor& input, double p, int64_t seed, int64_t offset, at::Tensor& out, at::Tensor& mask) {
  const uint64_t threshold = keep_threshold(p);
  if (input.scalar_type() == at::kFloat && input.is_contiguous() && out.is_contiguous() && mask.is_contiguous()) {
    const float* from = input.const_data_ptr<float>();
    float* to = out.mutable_data_ptr<float>();
    bool* keep = mask.mutable_data_ptr<bool>();
    const float scale = float(scale_of(p));
    for_words(stream_of(seed, offset), input.numel(), 1, [&](int64_t first, int64_t count, const Words& words) {
      for (int64_t i = 0; i < count; ++i) {
        keep[first + i] = words[size_t(i)] < threshold;
        to[first + i] = from[first + i] * float(keep[first + i]) * scale;
      }
    });
    return;
  }
  mask.copy_(keep_mask(input.sizes(), p, stream_of(seed, offset)));
  soft_dropout_backward(input, mask, scale_of(p), out);
}

void soft_dropout_backward(const at::Tensor& gradOutput, const at::Tensor& mask, double scale, at::Tensor& out) {
  at::mul_out(out, gradOutput, mask);
  out.mul_(scale);
}

void dropout(const at::Tensor& input, const std::optional<at::Tensor>& optionalNoiseShape, double p, int64_t seed, int64_t offset,
             at::Tensor& out, at::Tensor& maskOut) {
  TORCH_CHECK(!optionalNoiseShape, "a noise shape is not offered");
  const at::Tensor mask = keep_mask(input.sizes(), p, stream_of(seed, offset));
  pack(mask, maskOut);
  soft_dropout_backward(input, mask, scale_of(p), out);
}

void dropout_gen_mask(at::IntArrayRef shape, double prob, int64_t seed, int64_t offset, at::Tensor& out) {
  pack(keep_mask(shape, prob, stream_of(seed, offset)), out);
}

void dropout_gen_mask_v2(at::IntArrayRef shape, double prob, int64_t seed, int64_t offset, at::ScalarType, at::Tensor& out) {
  dropout_gen_mask(shape, prob, seed, offset, out);
}

void dropout_do_mask(const at::Tensor& self, const at::Tensor& mask, double prob, at::Tensor& out) {
  soft_dropout_backward(self, unpack(mask, self.sizes()), scale_of(prob), out);
}

}  // namespace softnpu::ops::kernels
