#include "core/graph/graph_resources.h"

#include <mutex>
#include <utility>
#include <vector>

#include "acl/symbol.h"
#include "base/first_failure.h"
#include "core/memory/allocator.h"
#include "core/memory/device_cache.h"
#include "core/memory/kept_graphs.h"

namespace torch_npu {
namespace {

template <typename Function>
void for_each_cache(const Function& function) {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) function(device_cache(device));
}

struct KeptResources {
  std::mutex mutex;
  std::vector<GraphResources> all;  // guarded by mutex

  static KeptResources& instance() {
    static KeptResources* const leaked = new KeptResources;
    return *leaked;
  }

  std::vector<GraphResources> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(all, {});
  }
};

// Releases all kept resources. If a wait for a replay fails, that graph is kept, and the first failure is thrown in the end.
void release_kept() {
  FirstFailure failure;
  for (GraphResources& resources : KeptResources::instance().take()) {
    if (failure.attempt([&] { resources.replayed.wait(); })) {
      release_resources(resources);
    } else {
      keep_resources(std::move(resources));
    }
  }
  failure.rethrow();
}

[[maybe_unused]] const bool kept_graphs_registered = [] {
  set_kept_graph_release(&release_kept);
  return true;
}();

}  // namespace

void retain_graph_pool(c10::MempoolId_t pool) {
  for_each_cache([&](DeviceCache& cache) { cache.retain_pool(pool, nullptr, PoolHolder::kGraph); });
}

bool release_resources(GraphResources& resources) noexcept {
  if (resources.graph != nullptr) acl::warn_if_failed(ACL_FN(aclmdlRIDestroy)(resources.graph), "aclmdlRIDestroy");
  resources.states.clear();
  bool has_memory = false;
  for_each_cache([&](DeviceCache& cache) { has_memory |= cache.drop_pool(resources.pool, PoolHolder::kGraph); });
  resources = GraphResources();
  return has_memory;
}

void release_pool_memory(c10::MempoolId_t pool) {
  FirstFailure failure;
  for_each_cache([&](DeviceCache& cache) { failure.attempt([&] { cache.release_cached(pool); }); });
  failure.rethrow();
}

void keep_resources(GraphResources resources) noexcept {
  KeptResources& kept = KeptResources::instance();
  const std::lock_guard lock(kept.mutex);
  kept.all.push_back(std::move(resources));
}

}  // namespace torch_npu
