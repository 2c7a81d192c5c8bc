// Blocks of device memory, and the free ones of one stream: those freed lately as they are, the others by size.
//
// Not thread-safe: DeviceCache locks.
#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/memory/expandable_segment.h"
#include "core/memory/pluggable_allocator.h"
#include "core/stream/stream.h"

namespace torch_npu {

struct StreamCache;

// A piece of a segment. Blocks of a segment are chained by address and cover it.
struct Block {
  char* address = nullptr;
  size_t size = 0;
  size_t requested = 0;          // what the user asked for, while allocated; 0 while its segment is on its way back
  size_t rounded = 0;            // the same, as the settings of that time rounded it
  StreamCache* cache = nullptr;  // where it goes when it is free
  Block* before = nullptr;       // neighbours in the segment
  Block* after = nullptr;
  Block* previous = nullptr;                // neighbours in a list of SmallBlocks
  Block* next = nullptr;                    // also in a list of RecentBlocks, and: the next unused object
  uint32_t pending_events = 0;              // marks of other streams to wait for before it is free
  bool is_small = false;                    // of a segment for small requests
  bool is_free = false;                     // in SmallBlocks or LargeBlocks
  bool is_oversize = false;                 // when it was allocated, the settings forbade to cut it
  bool is_oversize_segment = false;         // of the first block: when the segment was made, they did
  uint64_t freed_at = 0;                    // the tick of DeviceCache at which it came there
  ExpandableSegment* expandable = nullptr;  // whose memory it is
  std::vector<NPUStream> users{};           // other streams that use it, by recordStream

  bool is_split() const { return before != nullptr || after != nullptr; }
};

// Free blocks of segments for small requests: one list per size and a bitmap of lists that are not empty. Everything is O(1).
class SmallBlocks {
 public:
  static constexpr size_t kUnit = 512;
  static constexpr size_t kSegment = 2 << 20;
  static constexpr size_t kSizes = kSegment / kUnit;

  void insert(Block* block) {
    const size_t list = list_of(block->size);
    block->previous = nullptr;
    block->next = lists_[list];
    if (block->next != nullptr) block->next->previous = block;
    lists_[list] = block;
    words_[list / 64] |= bit(list);
    summary_ |= bit(list / 64);
  }

  void erase(Block* block) {
    if (block->next != nullptr) block->next->previous = block->previous;
    if (block->previous != nullptr) {
      block->previous->next = block->next;
      return;
    }
    const size_t list = list_of(block->size);
    lists_[list] = block->next;
    if (lists_[list] != nullptr) return;
    words_[list / 64] &= ~bit(list);
    if (words_[list / 64] == 0) summary_ &= ~bit(list / 64);
  }

  // The smallest block of at least `size`, the newest of several; null if there is none.
  Block* best_fit(size_t size) const {
    const size_t list = list_of(size);
    const uint64_t same_word = words_[list / 64] & (~uint64_t{0} << list % 64);
    if (same_word != 0) return lists_[list / 64 * 64 + lowest(same_word)];
    if (list / 64 == 63) return nullptr;
    const uint64_t later_words = summary_ & (~uint64_t{0} << (list / 64 + 1));
    if (later_words == 0) return nullptr;
    const size_t word = lowest(later_words);
    return lists_[word * 64 + lowest(words_[word])];
  }

  // Segments of which every byte is free.
  Block* whole_segments() const { return lists_[kSizes - 1]; }

 private:
  static_assert(kSizes == 64 * 64);
  static size_t list_of(size_t size) { return size / kUnit - 1; }
  static uint64_t bit(size_t position) { return uint64_t{1} << position % 64; }
  static size_t lowest(uint64_t word) { return static_cast<size_t>(std::countr_zero(word)); }

  std::array<Block*, kSizes> lists_{};
  std::array<uint64_t, kSizes / 64> words_{};
  uint64_t summary_ = 0;
};

// Free blocks of all other segments.
class LargeBlocks {
 public:
  void insert(Block* block) { blocks_.insert(block); }
  void erase(Block* block) { blocks_.erase(block); }

  // The smallest block of at least `size`, the lowest address of several; null if there is none.
  Block* best_fit(size_t size) const {
    const auto found = blocks_.lower_bound(size);
    return found == blocks_.end() ? nullptr : *found;
  }

  auto begin() const { return blocks_.begin(); }
  auto end() const { return blocks_.end(); }

 private:
  struct Order {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
    bool operator()(const Block* block, size_t size) const { return block->size < size; }
    bool operator()(size_t size, const Block* block) const { return size < block->size; }
  };
  std::set<Block*, Order> blocks_;
};

// Freed blocks that are not joined with their neighbours yet: the next request of the same size takes the newest one as it is.
class RecentBlocks {
 public:
  // Null if there is none.
  Block* take(size_t request) {
    List& list = list_of(request);
    if (list.request != request || list.first == nullptr) return nullptr;
    Block* block = list.first;
    list.first = block->next;
    return block;
  }

  // A block that served requests of `request` bytes. Calls `evict` for blocks of another size that have to make room.
  template <typename Evict>
  void insert(Block* block, size_t request, Evict evict) {
    List& list = list_of(request);
    if (list.request != request) [[unlikely]] {
      empty(list, evict);
      list.request = request;
    }
    block->next = list.first;
    list.first = block;
  }

  template <typename Evict>
  bool evict_all(Evict evict) {
    bool any = false;
    for (List& list : lists_) {
      any |= list.first != nullptr;
      empty(list, evict);
    }
    return any;
  }

 private:
  struct List {
    size_t request = 0;
    Block* first = nullptr;
  };

  List& list_of(size_t request) { return lists_[request / SmallBlocks::kUnit * kSpread >> kShift]; }

  template <typename Evict>
  static void empty(List& list, Evict evict) {
    while (list.first != nullptr) {
      Block* block = list.first;
      list.first = block->next;
      evict(block);
    }
  }

  static constexpr size_t kLists = 128;
  static constexpr uint64_t kSpread = 0x9e3779b97f4a7c15u;  // sizes that are multiples of each other go to different lists
  static constexpr int kShift = 64 - std::countr_zero(kLists);
  std::array<List, kLists> lists_;
};

class DeviceCache;
struct BlockPool;

struct StreamCache {
  DeviceCache& device;
  BlockPool& pool;
  NPUStream stream;
  RecentBlocks recent{};
  SmallBlocks small{};
  LargeBlocks large{};
  std::vector<std::unique_ptr<ExpandableSegment>> expandable{};
};

// Memory that is kept apart: segments belong to one pool, and a request is met from the pool it names.
struct BlockPool {
  c10::MempoolId_t id{0, 0};                   // {0, 0}: the pool of all who name none
  const AllocatorFunctions* source = nullptr;  // where segments come from; null: the device
  size_t use_count = 0;                        // who may still name it; not counted for {0, 0}
  size_t graph_count = 0;                      // those of them that are graphs
  size_t segments = 0;
  StreamCache* newest_cache = nullptr;  // that of the last allocation
  std::unordered_map<c10::StreamId, std::unique_ptr<StreamCache>> caches{};

  bool is_default() const { return id == c10::MempoolId_t{0, 0}; }
  bool is_dropped() const { return use_count == 0 && !is_default(); }
};

}  // namespace torch_npu
