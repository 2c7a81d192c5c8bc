#include "prof/library.h"

#pragma weak softnpuDriver
#pragma weak softnpuProfiler

namespace softnpu::prof {

const SoftnpuDriver* driver() {
  static const SoftnpuDriver* const found = softnpuDriver == nullptr ? nullptr : softnpuDriver(SOFTNPU_DRIVER_VERSION);
  return found;
}

const SoftnpuProfiler* profiler() {
  static const SoftnpuProfiler* const found = softnpuProfiler == nullptr ? nullptr : softnpuProfiler(SOFTNPU_PROFILER_VERSION);
  return found;
}

}  // namespace softnpu::prof
