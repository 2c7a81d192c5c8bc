// The value of CPU_AFFINITY_CONF: the cores on which threads that use a device run.
//
//   CPU_AFFINITY_CONF=1                     each device gets an equal range of the process's cores
//   CPU_AFFINITY_CONF=1,npu0:0-3,npu1:4-7   these cores for these devices
//
// On hardware, mode 2 gives some threads cores of their own. Here it means the same as 1. core/device/affinity.h binds the
// threads.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

namespace torch_npu {

struct Affinity {
  bool binds = false;
  std::map<int64_t, std::pair<int64_t, int64_t>> ranges;  // by device; first and last core
};

// Accepts mode[,force:0|1][,npu_affine:0|1][,npuX:a-b]... Returns false, and leaves `affinity` unchanged, for anything else.
bool parse_affinity(std::string_view text, Affinity& affinity);

}  // namespace torch_npu
