#include "hccl/library.h"

#include "runtime/abort.h"

#pragma weak softnpuDriver
#pragma weak softnpuTaskIsAborted

namespace softnpu::hccl {

const SoftnpuDriver* driver() {
  static const SoftnpuDriver* const found = softnpuDriver == nullptr ? nullptr : softnpuDriver(SOFTNPU_DRIVER_VERSION);
  return found;
}

bool task_is_aborted() { return softnpuTaskIsAborted != nullptr && softnpuTaskIsAborted(); }

}  // namespace softnpu::hccl
