#include "core/memory/block_pools.h"

namespace torch_npu {

BlockPool& BlockPools::find(c10::MempoolId_t id) {
  const auto found = pools_.find(id);
  return found == pools_.end() ? default_pool_ : found->second;
}

StreamCache& BlockPools::select_cache(BlockPool& pool, c10::StreamId id) {
  std::unique_ptr<StreamCache>& cache = pool.caches[id];
  if (cache == nullptr) cache.reset(new StreamCache{owner_, pool, NPUStream(device_, id)});
  pool.newest_cache = cache.get();
  return *cache;
}

void BlockPools::retain(c10::MempoolId_t id, const AllocatorFunctions* source, PoolHolder holder) {
  const auto [entry, is_new] = pools_.try_emplace(id);
  BlockPool& pool = entry->second;
  if (is_new) {
    pool.id = id;
    pool.source = source;
  }
  ++pool.use_count;
  if (holder == PoolHolder::kGraph) ++pool.graph_count;
}

bool BlockPools::drop(c10::MempoolId_t id, PoolHolder holder) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return false;
  BlockPool& pool = found->second;
  --pool.use_count;
  if (holder == PoolHolder::kGraph) --pool.graph_count;
  if (!pool.is_dropped()) return false;
  if (pool.segments > 0) return true;
  pools_.erase(found);
  return false;
}

size_t BlockPools::use_count(c10::MempoolId_t id) const {
  const auto found = pools_.find(id);
  return found == pools_.end() ? 0 : found->second.use_count;
}

void BlockPools::erase_empty() {
  std::erase_if(pools_, [](const auto& pool) { return pool.second.is_dropped() && pool.second.segments == 0; });
}

}  // namespace torch_npu
