// Random number generators. The class is public: torch_npu/csrc/aten/NPUGeneratorImpl.h.
//
//   auto* generator = at::get_generator_or_default<NPUGeneratorImpl>(optional, getDefaultNPUGenerator());
//   auto [seed, offset] = philox(*generator, numbers);     // locks mutex_
#pragma once

#include <utility>

#include "core/device/device.h"
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"

namespace torch_npu {

using at_npu::NPUGeneratorImpl;
using at_npu::detail::createNPUGenerator;
using at_npu::detail::getDefaultNPUGenerator;

// Returns seed and offset for `count` numbers per element, and advances the offset by them. Locks mutex_.
C10_EXPORT std::pair<uint64_t, uint64_t> philox(NPUGeneratorImpl& generator, uint64_t count);

// Seeds the default generators of all devices. Works without a device, because generators are objects of the host.
C10_EXPORT void seed_default_generators(uint64_t seed);

}  // namespace torch_npu
