#include "base/affinity.h"

#include <sched.h>

#include "base/limits.h"
#include "base/parse.h"

namespace torch_npu {
namespace {

constexpr int64_t kMostCores = CPU_SETSIZE - 1;

bool parse_range(std::string_view text, std::pair<int64_t, int64_t>& range) {
  const auto ends = split(text, '-');
  return ends.size() == 2 && parse_number(ends[0], 0, kMostCores, range.first) &&
         parse_number(ends[1], range.first, kMostCores, range.second);
}

}  // namespace

bool parse_affinity(std::string_view text, Affinity& affinity) {
  Affinity found;
  const auto items = split(text, ',');
  int64_t mode = 0, ignored = 0;
  if (items.empty() || !parse_number(items[0].substr(items[0].starts_with("mode:") ? 5 : 0), 0, 2, mode)) return false;
  found.binds = mode != 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const auto parts = split(items[i], ':');
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

}  // namespace torch_npu
