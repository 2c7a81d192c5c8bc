// The memory of one device.
//
//   Result<void*> block = heap.allocate(1000);
//   heap.check_range(block.value(), 1000);     // ok
//   heap.free(block.value());
//   heap.check_range(block.value(), 1000);     // "use after free"
//
// Blocks of at most 32 KiB come from slabs, 64 KiB pages cut into slots of one power-of-two size; larger ones are runs of such
// pages, best fit. Everything the heap knows about a block lies outside device memory, so no kernel can damage it.
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

// Ways to find programs that write where they should not. Each costs time and memory.
struct HeapOptions {
  // Bytes of a known pattern before and behind every block, checked when it is freed, and by check_red_zones() and
  // check_red_zones_of().
  bool red_zones = false;
  // Fresh memory reads as NaN in every float type (0xFF bytes), freed memory, up to 256 MiB of it, as 0xDB bytes.
  bool poison = false;
  // Every block on pages of its own between pages that kernels cannot touch, its end (rounded up to 64 bytes) against the second
  // one. Freed blocks cannot be touched until they are handed out again.
  bool guard_pages = false;

  bool any() const { return red_zones || poison || guard_pages; }
};

// A live block as its owner knows it.
struct Allocation {
  std::byte* base = nullptr;
  size_t bytes = 0;
};

enum class MemoryState { kNever, kFreed, kLive };

// What lies at an address. The allocation is that of kLive; the address may lie outside, in a red zone or a guard page.
struct MemoryInfo {
  MemoryState state = MemoryState::kNever;
  Allocation allocation;
};

// Thread-safe. What it holds is charged to the ledger in whole slabs and page runs.
class Heap {
 public:
  // `engine` and `ledger` outlive the heap. One heap per device and process. `host_limit` bounds what the ledger counts for all
  // devices and processes together.
  static Result<std::unique_ptr<Heap>> open(Engine& engine, Ledger& ledger, int device, size_t host_limit, HeapOptions options);

  // Frees everything.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // A 64-byte aligned device address; the memory is not zeroed. ACL_ERROR_RT_MEMORY_ALLOCATION, with requested, free and total
  // bytes, when the device or, by the ledger, the host has no room; ACL_ERROR_RT_PARAM_INVALID for 0 bytes.
  Result<void*> allocate(size_t bytes);

  // Frees at once and waits for no stream. ACL_ERROR_RT_PARAM_INVALID, naming the mistake, for a block that was freed already, an
  // address inside a block (with its base) and one that was never allocated. ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW for a
  // damaged red zone: the block is freed all the same.
  Status free(void* pointer);

  // Ok if [pointer, pointer + bytes) lies inside one live block; an empty range needs a live pointer. Otherwise
  // ACL_ERROR_RT_PARAM_INVALID: freed, running past the end, or never allocated. Lock-free: it stands in front of every copy.
  Status check_range(const void* pointer, size_t bytes) const;

  // The live block that contains `pointer`. Here, in check_range() and in inspect() a range of mapped_ranges.h counts as one.
  std::optional<Allocation> find(const void* pointer) const;

  // Whether `pointer` is one that the heap could hand out.
  bool owns(const void* pointer) const { return offset_of(pointer) < span_.bytes; }

  // Whether blocks of 64 KiB and more begin with a page.
  bool has_whole_pages() const { return !options_.red_zones && !options_.guard_pages; }

  // The block that contains `pointer` or is nearest to it, for reports of faults. Lock-free, fit for signal handlers.
  MemoryInfo inspect(const void* pointer) const;

  // Checks the red zones of all live blocks and describes the first damage, as free() does. Ok without red zones.
  Status check_red_zones();

  // Checks those of the live block that contains `pointer`, if there is one. Damage is mended, so that it is reported once.
  Status check_red_zones_of(const void* pointer);

  // Frees everything; every address reads as freed afterwards.
  void release_all();

  // Gives up the empty slabs that are kept for speed, so that the ledger counts live blocks only. Whether there were any.
  bool trim();

  // How often blocks of any heap of the process were freed: changes after each time. Never moves. count_free() is for memory
  // that is no heap's.
  static const uint64_t* frees();
  static void count_free();

  // Bytes in live blocks, rounded up to slots and pages: now, and the most so far.
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

  // Zeros that take memory only where they are written. Kept until the heap goes, so that a reader without a lock always finds an
  // object.
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

  // Of a page that is a slab or the first of a run.
  struct PageRecord;

  // What the heap knows about one address. Offsets count from the heap's first byte.
  struct Place {
    using State = MemoryState;
    State state = State::kNever;
    bool in_slab = false;
    uint32_t page = 0;  // the slab, or the first page of the run
    size_t base = 0;    // of the block
    size_t bytes = 0;   // of the block, as requested
    size_t begin = 0;   // of the slot or run, red zones included
    size_t end = 0;
  };

  Heap(Engine& engine, Ledger& ledger, int device, size_t host_limit, HeapOptions options, MemorySpan span);

  // Under the lock:
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

  // Read without a lock.
  LazyArray<std::atomic<uint32_t>> tags_;   // per page: what it is part of
  LazyArray<std::atomic<uint16_t>> slots_;  // per slot: bytes of a live block, or its state
  LazyArray<PageRecord> records_;
  std::atomic<size_t> used_{0};
  std::atomic<size_t> peak_{0};

  mutable std::mutex mutex_;  // guards the following, and every change to what is read without it
  PageRuns runs_;
  std::array<uint32_t, kSlabClasses> open_slabs_{};  // first of the slabs with a free slot, plus 1
  std::array<uint32_t, kSlabClasses> empty_slabs_{};
  size_t charged_ = 0;
  uint64_t releases_ = 0;   // calls of release_all()
  uint32_t high_page_ = 0;  // no page from here on was ever handed out
};

}  // namespace softnpu
