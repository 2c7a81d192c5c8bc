// What a graph holds of the device, and how that is let go: after the last replay, and the memory after all work.
//
// The memory of a graph's pool is used by its replays, and its outputs by whatever reads them. A destructor that cannot wait for
// that hands the parts to keep_graph(): let_kept_graphs_go() waits again, in emptyCache() and before an allocation would fail.
//
// Functions are thread-safe.
#pragma once

#include <c10/core/Allocator.h>

#include "acl/acl_mdl.h"
#include "core/stream/event.h"

namespace torch_npu {

struct GraphParts {
  aclmdlRI graph = nullptr;
  c10::DeviceIndex device = 0;
  c10::MempoolId_t pool{0, 0};  // {0, 0}: there are no parts. Retained on every device, as streams of each may be captured
  at::DataPtr states{};  // on the device: seed and offset of generators. Older than the captured calls, none of which gets it
  NPUEvent replayed{};

  bool is_empty() const { return pool == c10::MempoolId_t{0, 0}; }
};

// Names the pool for a graph.
void retain_graph_pool(c10::MempoolId_t pool);

// After the last replay: destroys the graph, and no longer names the pool. `parts` is empty then. Whether the pool has memory
// left that nobody can name, for give_back_pool().
bool let_go(GraphParts& parts) noexcept;

// Waits for all work; throws as DeviceCache::release_cached(), and the memory is kept then.
void give_back_pool(c10::MempoolId_t pool);

void keep_graph(GraphParts parts) noexcept;
// Returns when no graph is kept any more. Where waiting for a replay fails that is thrown, and the graph is kept.
void let_kept_graphs_go();

}  // namespace torch_npu
