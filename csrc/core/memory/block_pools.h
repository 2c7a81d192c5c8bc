// The pools of one DeviceCache. Each pool has its own segments, and within a pool each stream has its own free blocks.
//
//   BlockPool& pool = pools.find(id);
//   StreamCache& cache = pools.cache_of(pool, stream_id);
//
// BlockPools owns the pools and their StreamCaches. A private pool exists from the first retain() until the last drop(), or until
// its last segment is given back, if that is later. Not thread-safe: the lock of the DeviceCache protects all of it.
#pragma once

#include <c10/core/Allocator.h>

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/memory/expandable_segment.h"
#include "core/memory/free_lists.h"
#include "core/memory/pluggable_allocator.h"
#include "core/stream/stream.h"

namespace torch_npu {

class DeviceCache;
struct BlockPool;

// The free blocks of one stream in one pool.
struct StreamCache {
  DeviceCache& device;
  BlockPool& pool;
  NPUStream stream;
  RecentBlocks recent{};
  SmallBlocks small{};
  LargeBlocks large{};
  std::vector<std::unique_ptr<ExpandableSegment>> expandable{};
};

// A request is served from the segments of one pool only.
struct BlockPool {
  c10::MempoolId_t id{0, 0};                   // {0, 0}: the default pool
  const AllocatorFunctions* source = nullptr;  // the functions that give segments; null: the device gives them
  size_t use_count = 0;                        // references from retain(); the default pool has none
  size_t graph_count = 0;                      // those of them that graphs hold
  size_t segments = 0;
  StreamCache* newest_cache = nullptr;  // the one of the last allocation
  std::unordered_map<c10::StreamId, std::unique_ptr<StreamCache>> caches{};

  bool is_default() const { return id == c10::MempoolId_t{0, 0}; }
  // No reference is left: only its segments keep it.
  bool is_dropped() const { return use_count == 0 && !is_default(); }
};

// The holder of a reference to a pool. While a graph holds one, the pool keeps its free segments.
enum class PoolHolder : bool { kProgram, kGraph };

class BlockPools {
 public:
  BlockPools(DeviceCache& owner, c10::DeviceIndex device) : owner_(owner), device_(device) {}
  BlockPools(const BlockPools&) = delete;
  BlockPools& operator=(const BlockPools&) = delete;

  BlockPool& default_pool() { return default_pool_; }
  // The default pool if no pool has this ID.
  BlockPool& find(c10::MempoolId_t id);
  // Made at the first call for a stream.
  StreamCache& cache_of(BlockPool& pool, c10::StreamId id) {
    if (pool.newest_cache != nullptr && pool.newest_cache->stream.id() == id) return *pool.newest_cache;
    return select_cache(pool, id);
  }

  // Adds a reference. The first one makes the pool, whose segments come from `source`.
  void retain(c10::MempoolId_t id, const AllocatorFunctions* source, PoolHolder holder);
  // Removes a reference. Returns true if it was the last one and the pool still has segments.
  bool drop(c10::MempoolId_t id, PoolHolder holder);
  // 0 if no pool has this ID.
  size_t use_count(c10::MempoolId_t id) const;
  // Erases dropped pools that have no segments.
  void erase_empty();

  template <typename Action>
  void for_each(Action&& action) {
    action(default_pool_);
    for (auto& [id, pool] : pools_) action(pool);
  }
  // Calls `action` for the pool `id`. {0, 0} stands for the default pool and all dropped ones.
  template <typename Action>
  void for_each_named(c10::MempoolId_t id, Action&& action) {
    const bool is_default = default_pool_.id == id;
    if (is_default) action(default_pool_);
    for (auto& [other, pool] : pools_) {
      if (other == id || (is_default && pool.is_dropped())) action(pool);
    }
  }

 private:
  StreamCache& select_cache(BlockPool& pool, c10::StreamId id);

  DeviceCache& owner_;
  const c10::DeviceIndex device_;
  BlockPool default_pool_;
  std::map<c10::MempoolId_t, BlockPool> pools_;  // private pools
};

}  // namespace torch_npu
