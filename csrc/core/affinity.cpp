#include "core/affinity.h"

#include <c10/util/Exception.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/device.h"
#include "core/options.h"
#include "core/words.h"

namespace torch_npu {
namespace {

constexpr int64_t kMostCores = CPU_SETSIZE - 1;

bool parse_range(std::string_view text, std::pair<int64_t, int64_t>& range) {
  const auto ends = words(text, '-');
  return ends.size() == 2 && parse_number(ends[0], 0, kMostCores, range.first) &&
         parse_number(ends[1], range.first, kMostCores, range.second);
}

// The cores that the process had when it first asked: later ones may be those of one device.
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

bool parse_affinity(std::string_view text, Affinity& affinity) {
  Affinity found;
  const auto items = words(text, ',');
  int64_t mode = 0, ignored = 0;
  if (items.empty() || !parse_number(items[0].substr(items[0].starts_with("mode:") ? 5 : 0), 0, 2, mode)) return false;
  found.binds = mode != 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const auto parts = words(items[i], ':');
    if (parts.size() != 2) return false;
    if (parts[0] == "force" || parts[0] == "npu_affine") {
      if (!parse_number(parts[1], 0, 1, ignored)) return false;
      continue;
    }
    int64_t device = 0;
    if (!parts[0].starts_with("npu") || !parse_number(parts[0].substr(3), 0, kMaxDevices - 1, device)) return false;
    if (!parse_range(parts[1], found.ranges[device])) return false;
  }
  affinity = std::move(found);
  return true;
}

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
