// The index with which a heap finds the block at an address: a tag per page, a record per slab or run, a word per slot. Private
// to heap.cpp and heap_checks.cpp.
//
//   const Place place = locate(offset);                      // in a member of Heap; takes no lock
#pragma once

#include <bit>

#include "runtime/memory/heap.h"

namespace softnpu {

// The tag of a page: its kind, and the slot size of its slab or the first page of its run. 0: never allocated. A tag stays when
// its block is freed, so that a later use of the address is reported as use after free.
constexpr uint32_t kSlabTag = 1;
constexpr uint32_t kRunTag = 2;
constexpr uint32_t make_tag(uint32_t kind, uint32_t value) { return value << 2 | kind; }
constexpr uint32_t kind_of_tag(uint32_t tag) { return tag & 3; }
constexpr uint32_t value_of_tag(uint32_t tag) { return tag >> 2; }

// The word of a slot is the size of its live block, or one of these.
constexpr uint16_t kSlotNever = 0;
constexpr uint16_t kSlotFreed = 0xFFFF;

struct Heap::PageRecord {
  // For the first page of a run. `bytes` is written last, and is 0 unless the run is a live block.
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> base;
  std::atomic<uint32_t> pages;

  // For a slab; guarded by the heap's mutex. Links are page numbers plus 1.
  uint32_t shift;
  uint32_t next;
  uint32_t previous;
  uint64_t free_slots[kSlotsPerPage / 64];

  void fill_free() {
    const size_t count = kPageBytes >> shift;
    free_slots[0] = count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    free_slots[1] = count > 64 ? ~uint64_t{0} : 0;
  }
  bool is_full() const { return (free_slots[0] | free_slots[1]) == 0; }
  bool is_empty() const {
    return static_cast<size_t>(std::popcount(free_slots[0]) + std::popcount(free_slots[1])) == kPageBytes >> shift;
  }
  size_t take_first() {
    const size_t word = free_slots[0] != 0 ? 0 : 1;
    const auto bit = static_cast<size_t>(std::countr_zero(free_slots[word]));
    free_slots[word] &= free_slots[word] - 1;
    return word * 64 + bit;
  }
  void give(size_t slot) { free_slots[slot / 64] |= uint64_t{1} << slot % 64; }
};

inline Heap::Place Heap::slot_place(uint32_t page, unsigned shift, size_t slot) const {
  const uint16_t word = slots_[page * kSlotsPerPage + slot].load(std::memory_order_acquire);
  Place place;
  place.state = word == kSlotNever ? Place::State::kNever : word == kSlotFreed ? Place::State::kFreed : Place::State::kLive;
  place.in_slab = true;
  place.page = page;
  place.bytes = word;
  place.begin = (size_t{page} << kPageShift) + (slot << shift);
  place.base = place.begin + front_zone_;
  place.end = place.begin + (size_t{1} << shift);
  return place;
}

inline Heap::Place Heap::run_place(uint32_t first, uint32_t page) const {
  const PageRecord& run = records_[first];
  Place place;
  place.page = first;
  place.bytes = run.bytes.load(std::memory_order_acquire);
  place.base = run.base.load(std::memory_order_relaxed);
  const uint32_t pages = run.pages.load(std::memory_order_relaxed);
  place.begin = size_t{first} << kPageShift;
  place.end = size_t{first + pages - guard_pages()} << kPageShift;
  // A page after the end of the run still has the tag of a longer run that was freed.
  place.state = place.bytes != 0 && page < first + pages ? Place::State::kLive : Place::State::kFreed;
  return place;
}

inline Heap::Place Heap::locate(size_t offset) const {
  const auto page = static_cast<uint32_t>(offset >> kPageShift);
  const uint32_t tag = tags_[page].load(std::memory_order_acquire);
  if (kind_of_tag(tag) == kRunTag) return run_place(value_of_tag(tag), page);
  if (kind_of_tag(tag) == kSlabTag) return slot_place(page, value_of_tag(tag), (offset & (kPageBytes - 1)) >> value_of_tag(tag));
  return {};
}

}  // namespace softnpu
