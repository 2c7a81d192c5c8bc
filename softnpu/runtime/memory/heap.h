// The memory of one device.
//
//   Result<void*> block = heap.allocate(1000);
//   heap.check_range(block.value(), 1000);     // ok
//   heap.free(block.value());
//   heap.check_range(block.value(), 1000);     // "use after free"
//
// A block of at most 32 KiB is a slot of a slab: a page of 64 KiB that is cut into slots of one power-of-two size. A larger block
// is a run of such pages, allocated best fit. The heap keeps its data outside device memory, where no kernel can damage it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/engine/engine.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/page_runs.h"

namespace softnpu {

// Debug modes that find invalid accesses. Each costs time and memory.
struct HeapOptions {
  // A known pattern before and after every block. It is checked when the block is freed, and by check_red_zones() and
  // check_red_zones_of().
  bool red_zones = false;
  // New blocks are filled with 0xFF bytes, which are NaN in every float type. Freed blocks, up to 256 MiB of them, are filled
  // with 0xDB bytes.
  bool poison = false;
  // Every block has its own pages, between two pages without access. The end of the block, rounded up to 64 bytes, is at the
  // begin of the second one. Freed blocks cannot be accessed until they are allocated again.
  bool guard_pages = false;

  bool any() const { return red_zones || poison || guard_pages; }
};

// A live block: the address that allocate() returned and the size that was requested.
struct Allocation {
  std::byte* base = nullptr;
  size_t bytes = 0;
};

enum class MemoryState { kNever, kFreed, kLive };

// The state of an address. `allocation` is set for kLive; the address may lie next to it, in a red zone or a guard page.
struct MemoryInfo {
  MemoryState state = MemoryState::kNever;
  Allocation allocation;
};

// Thread-safe. Memory is charged to the ledger in whole slabs and runs of pages.
class Heap {
 public:
  // `engine` and `ledger` outlive the heap. There is one heap per device and process. `host_limit` is the limit of the ledger for
  // all devices and processes together.
  static Result<std::unique_ptr<Heap>> open(Engine& engine, Ledger& ledger, int device, size_t host_limit, HeapOptions options);

  // Frees everything.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Returns a 64-byte aligned device address; the memory is not zeroed. ACL_ERROR_RT_MEMORY_ALLOCATION, with requested, free and
  // total bytes, if the device has no room or the ledger refuses. ACL_ERROR_RT_PARAM_INVALID for 0 bytes.
  Result<void*> allocate(size_t bytes);

  // Frees at once and waits for no stream. ACL_ERROR_RT_PARAM_INVALID, with the mistake, for a block that was freed already, an
  // address inside a block (with its base) and one that was never allocated. ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW for a
  // damaged red zone; the block is freed nevertheless.
  Status free(void* pointer);

  // Ok if [pointer, pointer + bytes) lies inside one live block; for an empty range `pointer` must. Otherwise
  // ACL_ERROR_RT_PARAM_INVALID: freed, past the end, or never allocated. Lock-free, because every copy calls it.
  Status check_range(const void* pointer, size_t bytes) const;

  // The live block that contains `pointer`. A range of mapped_ranges.h counts as a live block, also in check_range() and
  // inspect().
  std::optional<Allocation> find(const void* pointer) const;

  // Whether `pointer` lies in the addresses of this heap.
  bool owns(const void* pointer) const { return offset_of(pointer) < span_.bytes; }

  // Whether blocks of 64 KiB and more begin at a page boundary.
  bool has_whole_pages() const { return !options_.red_zones && !options_.guard_pages; }

  // The block that contains `pointer` or is nearest to it, for fault reports. Lock-free; may be called in a signal handler.
  MemoryInfo inspect(const void* pointer) const;

  // Checks the red zones of all live blocks and returns the first damage, as free() does. Ok if red zones are off.
  Status check_red_zones();

  // Checks the red zones of the live block that contains `pointer`, if there is one. Restores a damaged zone, so that each damage
  // is reported once.
  Status check_red_zones_of(const void* pointer);

  // Frees all blocks.
  void release_all();

  // Frees the empty slabs that are kept for speed, so that the ledger counts live blocks only. Returns whether there were any.
  bool trim();

  // A counter of frees in all heaps of the process, at a constant address. count_free() counts a free of memory outside the
  // heaps.
  static const uint64_t* frees();
  static void count_free();

  // Bytes in live blocks, rounded up to slots and pages: the present number and the peak.
  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  size_t capacity() const { return page_count_ * kPageBytes; }

 private:
  static constexpr unsigned kPageShift = 16;
  static constexpr size_t kPageBytes = size_t{1} << kPageShift;
  static constexpr unsigned kMinSlotShift = 9;
  static constexpr unsigned kMaxSlotShift = 15;
  static constexpr size_t kSlotsPerPage = kPageBytes >> kMinSlotShift;
  static constexpr size_t kSlabClasses = kMaxSlotShift - kMinSlotShift + 1;

  // An array of zeros that takes memory only for pages that are written. It lives as long as the heap, so that readers without a
  // lock always find valid elements.
  template <typename T>
  class LazyArray {
   public:
    ~LazyArray() { unmap_zeros(items_, count_ * sizeof(T)); }
    bool map(size_t count) {
      count_ = count;
      items_ = static_cast<T*>(map_zeros(count * sizeof(T)));
      return items_ != nullptr;
    }
    T& operator[](size_t index) const { return items_[index]; }

   private:
    T* items_ = nullptr;
    size_t count_ = 0;
  };

  static void* map_zeros(size_t bytes);
  static void unmap_zeros(void* address, size_t bytes);

  // Data of a page that is a slab or the first page of a run.
  struct PageRecord;

  // The block at an address. Offsets count from the first byte of the heap.
  struct Place {
    using State = MemoryState;
    State state = State::kNever;
    bool in_slab = false;
    uint32_t page = 0;  // the slab, or the first page of the run
    size_t base = 0;    // first byte of the block
    size_t bytes = 0;   // size of the block, as requested
    size_t begin = 0;   // first byte of the slot or run, which includes the red zones
    size_t end = 0;
  };

  Heap(Engine& engine, Ledger& ledger, int device, size_t host_limit, HeapOptions options, MemorySpan span);

  // Call these with mutex_ held.
  Result<Place> take_slot(size_t bytes, unsigned shift);
  Result<Place> take_run(size_t bytes);
  void give_slot(const Place& place);
  void give_run(const Place& place, bool warm);
  Status add_slab(unsigned shift, size_t requested);
  void retire_slab(uint32_t page);
  bool retire_empty_slabs();
  void link_slab(uint32_t page);
  void unlink_slab(uint32_t page);
  Result<uint32_t> take_pages(uint32_t pages, size_t charge, size_t requested);
  void give_pages(uint32_t first, uint32_t pages, bool warm, size_t charge);
  void count_used(size_t bytes);
  void publish(const Place& place);
  void withdraw(const Place& place);
  Status prepare_fresh(const Place& place);
  Status retire_used(const Place& place);
  Status fill_zones(const Place& place);
  Status check_zones(const Place& place);
  Status check_zone(const Place& place, size_t begin, size_t end);
  void visit_live(const std::function<void(const Place&)>& visit) const;
  Status out_of_memory(size_t bytes) const;

  Place locate(size_t offset) const;
  Place slot_place(uint32_t page, unsigned shift, size_t slot) const;
  Place run_place(uint32_t first, uint32_t page) const;
  Status check_mapped_range(const void* pointer, size_t bytes) const;
  Status explain(const void* pointer, size_t bytes, const Place& place) const;
  Status explain_free(const void* pointer, const Place& place) const;

  uint32_t guard_pages() const { return options_.guard_pages ? 1 : 0; }
  std::byte* address(size_t offset) const { return span_.begin + offset; }
  size_t offset_of(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(span_.begin);
  }

  Engine& engine_;
  Ledger& ledger_;
  const int device_;
  const size_t host_limit_;
  const HeapOptions options_;
  const MemorySpan span_;
  const size_t page_count_;
  const size_t front_zone_;
  const size_t back_zone_;

  // Readers take no lock. Writers hold mutex_.
  LazyArray<std::atomic<uint32_t>> tags_;   // per page: the slab or run that it is part of
  LazyArray<std::atomic<uint16_t>> slots_;  // per slot: the size of its live block, or kSlotNever or kSlotFreed
  LazyArray<PageRecord> records_;
  std::atomic<size_t> used_{0};
  std::atomic<size_t> peak_{0};

  mutable std::mutex mutex_;  // guards the following, and writes to the members above
  PageRuns runs_;
  std::array<uint32_t, kSlabClasses> open_slabs_{};  // page number plus 1 of the first slab with a free slot; 0 if there is none
  std::array<uint32_t, kSlabClasses> empty_slabs_{};
  size_t charged_ = 0;
  uint64_t releases_ = 0;   // number of calls of release_all()
  uint32_t high_page_ = 0;  // pages from this one on were never allocated
};

}  // namespace softnpu
