// Seed and offset of one random launch. The generator gives them; the device draws the numbers (Philox 4x32). The same seed gives
// the same bits.
//
//   const Philox philox = draw(generator, self);       // advances the generator: each element may use four numbers
//   call::aclnnInplaceUniform(self, from, to, philox.seed, philox.offset);
//
// While the current stream is captured, the generator's state belongs to the graph: each replay reads seed and offset from device
// memory. The destructor tells the device that address, so the launch must be the last one before it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <optional>

namespace torch_npu {

using OptionalGenerator = std::optional<at::Generator>;

struct Philox {
  int64_t seed;
  int64_t offset;
  const void* state = nullptr;  // device address that a replay reads; null outside of a capture

  Philox(uint64_t seed, uint64_t offset, const void* state = nullptr)
      : seed(static_cast<int64_t>(seed)), offset(static_cast<int64_t>(offset)), state(state) {}
  Philox(const Philox&) = delete;
  Philox& operator=(const Philox&) = delete;
  ~Philox() noexcept(false);

 private:
  int exceptions_ = std::uncaught_exceptions();
};

// For one launch on the current device, that of `tensor`. Without a generator, the default one of the device. Throws, in
// PyTorch's words, if the generator belongs to another device.
Philox draw(const OptionalGenerator& generator, const at::Tensor& tensor);

// The check that draw() makes.
void check_generator_device(const OptionalGenerator& generator, const at::Tensor& tensor);

// Throws PyTorch's "not implemented" of the CPU kernel `kernel` unless `supported`. As on the CPU, an empty tensor may have any
// dtype.
void check_random_dtype(bool supported, const char* kernel, const at::Tensor& tensor);

}  // namespace torch_npu
