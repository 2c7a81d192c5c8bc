#include "core/graph/graph_parts.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "acl/symbol.h"
#include "core/memory/allocator.h"
#include "core/memory/device_cache.h"
#include "core/memory/device_cache_parts.h"

namespace torch_npu {
namespace {

template <typename Function>
void for_each_cache(const Function& function) {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) function(device_cache(device));
}

struct KeptGraphs {
  std::mutex mutex;
  std::vector<GraphParts> all;  // guarded by mutex

  static KeptGraphs& instance() {
    static KeptGraphs* const leaked = new KeptGraphs;
    return *leaked;
  }

  std::vector<GraphParts> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(all, {});
  }
};

}  // namespace

void retain_graph_pool(c10::MempoolId_t pool) {
  for_each_cache([&](DeviceCache& cache) { cache.retain_pool(pool, nullptr, PoolUser::kGraph); });
}

bool let_go(GraphParts& parts) noexcept {
  if (parts.graph != nullptr) acl::warn_if_failed(ACL_FN(aclmdlRIDestroy)(parts.graph), "aclmdlRIDestroy");
  parts.states.clear();
  bool has_memory = false;
  for_each_cache([&](DeviceCache& cache) { has_memory |= cache.drop_pool(parts.pool, PoolUser::kGraph); });
  parts = GraphParts();
  return has_memory;
}

void give_back_pool(c10::MempoolId_t pool) {
  FirstFailure failure;
  for_each_cache([&](DeviceCache& cache) { failure.attempt([&] { cache.release_cached(pool); }); });
  failure.rethrow();
}

void keep_graph(GraphParts parts) noexcept {
  KeptGraphs& kept = KeptGraphs::instance();
  const std::lock_guard lock(kept.mutex);
  kept.all.push_back(std::move(parts));
}

void let_kept_graphs_go() {
  FirstFailure failure;
  for (GraphParts& parts : KeptGraphs::instance().take()) {
    if (failure.attempt([&] { parts.replayed.wait(); })) {
      let_go(parts);
    } else {
      keep_graph(std::move(parts));
    }
  }
  failure.rethrow();
}

}  // namespace torch_npu
