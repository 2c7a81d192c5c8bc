// Random numbers of a device; the class is public: torch_npu/csrc/aten/NPUGeneratorImpl.h.
//
//   auto* generator = at::get_generator_or_default<NPUGeneratorImpl>(optional, getDefaultNPUGenerator());
//   auto [seed, offset] = philox(*generator, numbers);     // do not hold mutex_
#pragma once

#include <utility>

#include "core/device.h"
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"

namespace torch_npu {

using at_npu::NPUGeneratorImpl;
using at_npu::detail::createNPUGenerator;
using at_npu::detail::getDefaultNPUGenerator;

// Seed and offset for `count` numbers per element, and moves the offset behind them. Locks mutex_.
C10_EXPORT std::pair<uint64_t, uint64_t> philox(NPUGeneratorImpl& generator, uint64_t count);

// Seeds the default generators of all devices. They are objects of the host, so this neither starts a device nor needs one.
C10_EXPORT void seed_default_generators(uint64_t seed);

}  // namespace torch_npu
