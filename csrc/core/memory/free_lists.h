// Containers of the free blocks of one stream: SmallBlocks, LargeBlocks and RecentBlocks.
//
//   RecentBlocks recent;
//   recent.insert(block, /*request=*/512, [&](Block* evicted) { blocks.merge(evicted); });
//   Block* same = recent.take(512);
//
// They hold blocks and do not own them. Not thread-safe: the lock of the DeviceCache protects them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>

#include "core/memory/allocation_sizes.h"
#include "core/memory/block.h"

namespace torch_npu {

// Free blocks of segments for small requests: one list per size, and a bitmap of the lists that are not empty. Every operation
// takes constant time.
class SmallBlocks {
 public:
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

  // The smallest block of at least `size`; of several, the one inserted last. Null if there is none.
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

  // The first block that covers a whole segment; Block::next leads to the others. Null if there is none.
  Block* whole_segments() const { return lists_[kSizes - 1]; }

 private:
  static constexpr size_t kSizes = kSmallSegment / kBlockUnit;
  static_assert(kSizes == 64 * 64);
  static size_t list_of(size_t size) { return size / kBlockUnit - 1; }
  static uint64_t bit(size_t position) { return uint64_t{1} << position % 64; }
  static size_t lowest(uint64_t word) { return static_cast<size_t>(std::countr_zero(word)); }

  std::array<Block*, kSizes> lists_{};
  std::array<uint64_t, kSizes / 64> words_{};  // bit i: lists_[i] is not empty
  uint64_t summary_ = 0;                       // bit i: words_[i] is not 0
};

// Free blocks of all other segments.
class LargeBlocks {
 public:
  void insert(Block* block) { blocks_.insert(block); }
  void erase(Block* block) { blocks_.erase(block); }

  // The smallest block of at least `size`; of several, the one with the lowest address. Null if there is none.
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

// Freed blocks that are not merged with their neighbours yet. The next request of the same size takes the block freed last.
class RecentBlocks {
 public:
  // Null if there is no block for requests of `request` bytes.
  Block* take(size_t request) {
    List& list = list_of(request);
    if (list.request != request || list.first == nullptr) return nullptr;
    Block* block = list.first;
    list.first = block->next;
    return block;
  }

  // Adds a block that served a request of `request` bytes. Two sizes may share a list: then the blocks of the other size are
  // removed, and `evict` is called for each.
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

  // Removes all blocks and calls `evict` for each. Returns whether there were any.
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

  List& list_of(size_t request) { return lists_[request / kBlockUnit * kSpread >> kShift]; }

  template <typename Evict>
  static void empty(List& list, Evict evict) {
    while (list.first != nullptr) {
      Block* block = list.first;
      list.first = block->next;
      evict(block);
    }
  }

  static constexpr size_t kLists = 128;
  static constexpr uint64_t kSpread = 0x9e3779b97f4a7c15u;  // sizes that are multiples of each other get different lists
  static constexpr int kShift = 64 - std::countr_zero(kLists);
  std::array<List, kLists> lists_;
};

}  // namespace torch_npu
