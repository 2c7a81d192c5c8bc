#include "hccl/library.h"

#pragma weak softnpuDriver

namespace softnpu::hccl {

const SoftnpuDriver* driver() {
  static const SoftnpuDriver* const found = softnpuDriver == nullptr ? nullptr : softnpuDriver(SOFTNPU_DRIVER_VERSION);
  return found;
}

}  // namespace softnpu::hccl
