#include "core/device/affinity.h"

#include <c10/util/Exception.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/options.h"
#include "core/device/device.h"

namespace torch_npu {
namespace {

// The cores of the process at the first call. Later the calling thread may be bound to the cores of one device.
const std::vector<int>& cores_of_process() {
  static const auto* const cores = [] {
    auto* found = new std::vector<int>;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return found;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) found->push_back(core);
    }
    return found;
  }();
  return *cores;
}

cpu_set_t cores_for(c10::DeviceIndex device) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const std::vector<int>& cores = cores_of_process();
  const auto& ranges = options().affinity.ranges;
  if (const auto given = ranges.find(device); given != ranges.end()) {
    for (const int core : cores) {
      if (core >= given->second.first && core <= given->second.second) CPU_SET(static_cast<size_t>(core), &set);
    }
    return set;
  }
  const size_t devices = static_cast<size_t>(std::max<int>(device_count(), 1));
  const size_t share = std::max<size_t>(cores.size() / devices, 1);
  const size_t first = static_cast<size_t>(device) * share;
  for (size_t i = first; i < first + share && !cores.empty(); ++i) {
    CPU_SET(static_cast<size_t>(cores[i % cores.size()]), &set);
  }
  return set;
}

}  // namespace

void bind_to_cores_of(c10::DeviceIndex device) {
  if (!options().affinity.binds) [[likely]]
    return;
  const cpu_set_t cores = cores_for(device);
  if (CPU_COUNT(&cores) > 0 && sched_setaffinity(0, sizeof cores, &cores) == 0) return;
  if (options().warnings) {
    TORCH_WARN_ONCE("CPU_AFFINITY_CONF names no core for npu:", static_cast<int>(device),
                    " that this process may use; its threads stay where they are.");
  }
}

}  // namespace torch_npu
