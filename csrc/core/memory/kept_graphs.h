// The allocator's call up to graphs whose release failed and which still hold memory (core/graph/graph_resources.h).
//
//   set_kept_graph_release(&release_kept);    // core/graph, when the library is loaded
//   release_kept_graphs();                    // the allocator, in emptyCache() and before an allocation fails
//
// Thread-safe.
#pragma once

namespace torch_npu {

void set_kept_graph_release(void (*release)());

// Calls the function, if there is one, and throws its exception. Call it only while no graph is being captured.
void release_kept_graphs();

}  // namespace torch_npu
