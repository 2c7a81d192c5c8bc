// The files of DUMP_GE_GRAPH: one for each captured graph.
//
//   if (writes_graph_files()) write_graph_file(graph, device);      // when the capture has ended
//
// The file is pid_PID_deviceid_DEVICE/graph_N.json in the current folder. N counts the graphs of the process from 0. If a file
// cannot be written, one warning gives the reason, and no more files are written. Thread-safe.
#pragma once

#include <c10/core/Device.h>

#include "acl/acl_mdl.h"

namespace torch_npu {

bool writes_graph_files();
void write_graph_file(aclmdlRI graph, c10::DeviceIndex device) noexcept;

}  // namespace torch_npu
