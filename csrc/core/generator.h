// Random numbers of a device: a Philox seed and an offset.
//
//   auto* generator = at::get_generator_or_default<NPUGeneratorImpl>(optional, getDefaultNPUGenerator());
//   auto [seed, offset] = generator->philox(numbers);     // do not hold mutex_
//
// The state is 16 bytes: seed, then offset, which is a multiple of 4. Same seed and offset, same numbers.
#pragma once

#include <ATen/core/Generator.h>

#include <utility>

#include "core/device.h"

namespace torch_npu {

class C10_EXPORT NPUGeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit NPUGeneratorImpl(c10::DeviceIndex device);

  static c10::DeviceType device_type() { return kDeviceType; }

  // Seed and offset for `count` numbers per element, and moves the offset behind them. Locks mutex_.
  std::pair<uint64_t, uint64_t> philox(uint64_t count);

  // As for every generator, the caller locks mutex_ for these.
  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  NPUGeneratorImpl* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// Of `device` (-1: the current device); made at its first use, without using the device.
C10_EXPORT const at::Generator& getDefaultNPUGenerator(c10::DeviceIndex device = -1);
C10_EXPORT at::Generator createNPUGenerator(c10::DeviceIndex device = -1);

}  // namespace torch_npu
