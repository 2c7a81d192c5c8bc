// The random number generator of a device: a Philox seed and an offset.
//
//   auto* generator = at::get_generator_or_default<at_npu::NPUGeneratorImpl>(optional, at_npu::detail::getDefaultNPUGenerator());
//   const std::lock_guard lock(generator->mutex_);
//   auto [seed, offset] = generator->philox_engine_inputs(numbers);
//
// The state is 16 bytes: the seed, then the offset, which is a multiple of 4. The same seed and offset give the same numbers. The
// caller locks mutex_, as for every generator of torch.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace at_npu {

// Seed and offset for one call, as values. They cannot be requested while a graph is captured.
struct PhiloxNpuState {
  struct Payload {
    uint64_t val = 0;
  };

  PhiloxNpuState() = default;
  PhiloxNpuState(uint64_t seed, uint64_t offset) : seed_{seed}, offset_{offset} {}

  Payload seed_;
  Payload offset_;
  uint32_t offset_intragraph_ = 0;
  bool captured_ = false;
};

class TORCH_NPU_API NPUGeneratorImpl final : public c10::GeneratorImpl {
 public:
  // -1 is the current device.
  explicit NPUGeneratorImpl(c10::DeviceIndex device_index = -1);
  ~NPUGeneratorImpl() override = default;

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }
  std::shared_ptr<NPUGeneratorImpl> clone() const;

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return seed_; }
  // Sets a new random seed and returns it.
  uint64_t seed() override;
  // Throws unless `offset` is a multiple of 4.
  void set_offset(uint64_t offset) override;
  // While the current stream is captured for a graph: relative to the offset that the generator has at a replay.
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Other names of the offset.
  void set_philox_offset_per_thread(uint64_t offset) { set_offset(offset); }
  uint64_t philox_offset_per_thread() const { return get_offset(); }

  // Returns seed and offset for `increment` numbers per element, and advances the offset by them.
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t increment);
  PhiloxNpuState philox_npu_state(uint64_t increment);

 private:
  NPUGeneratorImpl* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

namespace detail {

// -1 is the current device. A default generator is created at its first use. It does not use the device.
TORCH_NPU_API const at::Generator& getDefaultNPUGenerator(c10::DeviceIndex device_index = -1);
TORCH_NPU_API at::Generator createNPUGenerator(c10::DeviceIndex device_index = -1);

}  // namespace detail
}  // namespace at_npu
