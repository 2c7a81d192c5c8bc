// The device resources of a graph, and their release: after the last replay, and for memory after all work of the process.
//
//   GraphResources resources{.device = device, .pool = pool};
//   retain_graph_pool(pool);
//   ...
//   resources.replayed.wait();
//   if (release_resources(resources)) release_pool_memory(pool);
//
// Replays use the memory of the graph's pool, and other work reads the outputs of the graph. A destructor that cannot wait for
// this work calls keep_resources(). The allocator then tries again, in emptyCache() and before an allocation fails
// (core/memory/kept_graphs.h).
//
// Thread-safe, except for two calls with the same GraphResources.
#pragma once

#include <c10/core/Allocator.h>

#include "acl/acl_mdl.h"
#include "core/stream/event.h"

namespace torch_npu {

struct GraphResources {
  aclmdlRI graph = nullptr;
  c10::DeviceIndex device = 0;
  // {0, 0}: there are no resources. Retained on every device, because streams of each device may be captured.
  c10::MempoolId_t pool{0, 0};
  // On the device: seed and offset of each generator. Allocated before the captured calls, so that none of them reuses it.
  at::DataPtr states{};
  NPUEvent replayed{};  // behind the last replay

  bool is_empty() const { return pool == c10::MempoolId_t{0, 0}; }
};

// Adds a reference to the pool on every device.
void retain_graph_pool(c10::MempoolId_t pool);

// Destroys the graph, drops the references to the pool and leaves `resources` empty. The last replay has ended. Returns true if
// the pool has no references left but still has memory, for release_pool_memory().
bool release_resources(GraphResources& resources) noexcept;

// Gives the memory of a pool without references back to the device, after a wait for all work. Throws and keeps the memory as
// DeviceCache::release_cached() does.
void release_pool_memory(c10::MempoolId_t pool);

// Keeps the resources until a later wait for the last replay succeeds.
void keep_resources(GraphResources resources) noexcept;

}  // namespace torch_npu
