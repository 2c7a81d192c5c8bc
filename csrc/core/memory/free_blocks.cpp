#include "core/memory/free_blocks.h"

namespace torch_npu {

bool FreeBlocks::merge_recent(StreamCache& cache) {
  return cache.recent.evict_all([this](Block* block) { merge(block); });
}

Block* FreeBlocks::take_fit(StreamCache& cache, size_t size, bool is_small) {
  Block* block = is_small ? cache.small.best_fit(size) : cache.large.best_fit(size);
  if (block == nullptr) return nullptr;
  if (!is_small) {
    // Blocks that must not be split are kept for requests of about their size.
    const CacheSettings& settings = state_.settings;
    if (size < settings.max_split && block->size >= settings.max_split) return nullptr;
    if (size >= settings.max_split && block->size - size >= settings.max_extra) return nullptr;
  }
  erase(block);
  return block;
}

void FreeBlocks::insert(Block* block) {
  block->is_free = true;
  block->freed_at = clock_;
  if (block->is_small) {
    block->cache->small.insert(block);
  } else {
    block->cache->large.insert(block);
  }
  if (!block->is_split()) return;
  increase(state_.stats.inactive_split, block->is_small, 1);
  increase(state_.stats.inactive_split_bytes, block->is_small, block->size);
}

void FreeBlocks::erase(Block* block) {
  block->is_free = false;
  if (block->is_small) {
    block->cache->small.erase(block);
  } else {
    block->cache->large.erase(block);
  }
  if (!block->is_split()) return;
  decrease(state_.stats.inactive_split, block->is_small, 1);
  decrease(state_.stats.inactive_split_bytes, block->is_small, block->size);
}

void FreeBlocks::merge(Block* block) {
  block = absorb(block, block->before);
  block = absorb(block, block->after);
  insert(block);
}

// The object with the lower address remains.
Block* FreeBlocks::absorb(Block* block, Block* neighbour) {
  if (neighbour == nullptr || !neighbour->is_free) return block;
  erase(neighbour);
  Block* low = neighbour == block->before ? neighbour : block;
  Block* high = low == block ? neighbour : block;
  low->size += high->size;
  low->after = high->after;
  if (low->after != nullptr) low->after->before = low;
  delete_block(high);
  return low;
}

Block* FreeBlocks::split(Block* block, size_t size) {
  Block* rest = new_block();
  rest->address = block->address + size;
  rest->size = block->size - size;
  rest->cache = block->cache;
  rest->is_small = block->is_small;
  rest->is_oversize_segment = false;
  rest->expandable = block->expandable;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  return rest;
}

Block* FreeBlocks::new_block() {
  if (unused_ == nullptr) return new Block;
  Block* block = unused_;
  unused_ = block->next;
  block->before = block->after = nullptr;
  return block;
}

void FreeBlocks::delete_block(Block* block) {
  block->next = unused_;
  unused_ = block;
}

}  // namespace torch_npu
