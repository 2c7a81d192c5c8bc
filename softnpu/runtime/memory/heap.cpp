#include "runtime/memory/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "runtime/base/round_up.h"
#include "runtime/memory/heap_layout.h"
#include "runtime/memory/mapped_ranges.h"

namespace softnpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kZoneBytes = 256;

// The amount of free memory that the heap does not return to the host, because getting it again is slow.
constexpr size_t kReleaseAtOnce = size_t{1} << 20;  // a freed run of at least this size is returned to the host
constexpr uint32_t kWarmPagesPerRun = 64;
constexpr uint32_t kWarmPagesPerHeap = 512;
constexpr uint32_t kWarmPagesPoisoned = 4096;
constexpr uint32_t kEmptySlabsPerClass = 4;

// Not std::atomic, because C code reads it (SoftnpuDriver::frees). Changed atomically.
constinit uint64_t g_frees = 0;

}  // namespace

void* Heap::map_zeros(size_t bytes) {
  void* zeros = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return zeros == MAP_FAILED ? nullptr : zeros;
}

void Heap::unmap_zeros(void* address, size_t bytes) {
  if (address != nullptr) munmap(address, bytes);
}

Result<std::unique_ptr<Heap>> Heap::open(Engine& engine, Ledger& ledger, int device, size_t host_limit, HeapOptions options) {
  Result<MemorySpan> span = engine.open_memory(device);
  if (!span.ok()) return span.take_status();
  std::unique_ptr<Heap> heap(new Heap(engine, ledger, device, host_limit, options, span.value()));
  const size_t pages = heap->page_count_;
  if (!heap->tags_.map(pages) || !heap->slots_.map(pages * kSlotsPerPage) || !heap->records_.map(pages)) {
    return Status(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text("no host memory for the page table of device ", device));
  }
  if (Status status = engine.set_access(span.value().begin, heap->capacity(), !options.guard_pages); !status.ok()) return status;
  heap->release_all();
  return heap;
}

Heap::Heap(Engine& engine, Ledger& ledger, int device, size_t host_limit, HeapOptions options, MemorySpan span)
    : engine_(engine),
      ledger_(ledger),
      device_(device),
      host_limit_(host_limit),
      options_(options),
      span_(span),
      page_count_(span.bytes >> kPageShift),
      front_zone_(options.red_zones ? kZoneBytes : 0),
      back_zone_(options.red_zones && !options.guard_pages ? kZoneBytes : 0) {}

Heap::~Heap() { release_all(); }

const uint64_t* Heap::frees() { return &g_frees; }

void Heap::count_free() { __atomic_fetch_add(&g_frees, 1, __ATOMIC_RELEASE); }

Result<void*> Heap::allocate(size_t bytes) {
  if (bytes == 0) return Status(ACL_ERROR_RT_PARAM_INVALID, "an allocation of 0 bytes is asked for");
  std::lock_guard lock(mutex_);
  if (bytes > capacity()) return out_of_memory(bytes);
  const size_t slot_bytes = bytes + front_zone_ + back_zone_;
  const bool small = !options_.guard_pages && slot_bytes <= size_t{1} << kMaxSlotShift;
  const auto shift = std::max(kMinSlotShift, static_cast<unsigned>(std::bit_width(slot_bytes - 1)));
  const auto take = [&] { return small ? take_slot(bytes, shift) : take_run(bytes); };

  Result<Place> taken = take();
  if (!taken.ok() && retire_empty_slabs()) taken = take();
  if (!taken.ok()) return taken.take_status();
  const Place& place = taken.value();
  if (options_.any()) {
    if (Status status = prepare_fresh(place); !status.ok()) {
      small ? give_slot(place) : give_run(place, /*warm=*/true);
      return status;
    }
  }
  publish(place);
  return static_cast<void*>(address(place.base));
}

Status Heap::free(void* pointer) {
  const size_t offset = offset_of(pointer);
  if (offset >= span_.bytes) return explain_free(pointer, {});
  std::unique_lock lock(mutex_);
  const Place place = locate(offset);
  if (place.state != Place::State::kLive || place.base != offset) return explain_free(pointer, place);
  withdraw(place);
  count_free();
  Status damage = options_.any() ? retire_used(place) : Status();
  if (place.in_slab) {
    give_slot(place);
    return damage;
  }

  bool warm = true;
  if (const size_t bytes = place.end - place.begin; bytes >= kReleaseAtOnce && !options_.poison) {
    // Slow, so the lock is not held; the pages are not free yet. If the host does not take them, they stay warm and free()
    // succeeds.
    const uint64_t releases = releases_;
    lock.unlock();
    warm = !engine_.release_pages(address(place.begin), bytes).ok();
    lock.lock();
    if (releases != releases_) return damage;
  }
  give_run(place, warm);
  return damage;
}

Status Heap::check_range(const void* pointer, size_t bytes) const {
  const size_t offset = offset_of(pointer);
  if (offset >= span_.bytes) [[unlikely]]
    return check_mapped_range(pointer, bytes);
  const Place place = locate(offset);
  const size_t inside = offset - place.base;  // wraps to a huge number in a front zone
  const bool good = place.state == Place::State::kLive && inside < place.bytes && bytes <= place.bytes - inside;
  return good ? Status() : explain(pointer, bytes, place);
}

Status Heap::check_mapped_range(const void* pointer, size_t bytes) const {
  const std::optional<Allocation> range = MappedRanges::instance().find(pointer);
  if (!range) return explain(pointer, bytes, {});
  const size_t inside = offset_of(pointer) - offset_of(range->base);
  if (bytes <= range->bytes - inside) return {};
  Place place;
  place.state = Place::State::kLive;
  place.base = offset_of(range->base);
  place.bytes = range->bytes;
  return explain(pointer, bytes, place);
}

std::optional<Allocation> Heap::find(const void* pointer) const {
  const size_t offset = offset_of(pointer);
  if (offset >= span_.bytes) return MappedRanges::instance().find(pointer);
  const Place place = locate(offset);
  if (place.state != Place::State::kLive || offset - place.base >= place.bytes) return std::nullopt;
  return Allocation{address(place.base), place.bytes};
}

void Heap::release_all() {
  std::lock_guard lock(mutex_);
  visit_live([&](const Place& place) { withdraw(place); });
  count_free();
  if (const size_t bytes = size_t{high_page_} << kPageShift; bytes > 0) {
    // As in free(), failures are ignored: the pages are only kept longer.
    static_cast<void>(engine_.release_pages(span_.begin, bytes));
    if (options_.guard_pages) static_cast<void>(engine_.set_access(span_.begin, bytes, false));
  }
  // The first block needs a guard page before it. Every other block has the guard page of its neighbour or a free page before it.
  const uint32_t first = options_.guard_pages ? 1 : 0;
  runs_.reset(first, static_cast<uint32_t>(page_count_) - first);
  open_slabs_.fill(0);
  empty_slabs_.fill(0);
  ledger_.release(device_, charged_);
  charged_ = 0;
  used_.store(0, std::memory_order_relaxed);
  ++releases_;
}

bool Heap::trim() {
  std::lock_guard lock(mutex_);
  return retire_empty_slabs();
}

// Slots and runs

Result<Heap::Place> Heap::take_slot(size_t bytes, unsigned shift) {
  const size_t slab_class = shift - kMinSlotShift;
  if (open_slabs_[slab_class] == 0) {
    if (Status status = add_slab(shift, bytes); !status.ok()) return status;
  }
  const uint32_t page = open_slabs_[slab_class] - 1;
  PageRecord& slab = records_[page];
  if (slab.is_empty()) --empty_slabs_[slab_class];
  const size_t slot = slab.take_first();
  if (slab.is_full()) unlink_slab(page);
  count_used(size_t{1} << shift);

  Place place = slot_place(page, shift, slot);
  place.bytes = bytes;
  return place;
}

void Heap::give_slot(const Place& place) {
  PageRecord& slab = records_[place.page];
  const size_t slab_class = slab.shift - kMinSlotShift;
  if (slab.is_full()) link_slab(place.page);
  slab.give((place.begin & (kPageBytes - 1)) >> slab.shift);
  used_.fetch_sub(place.end - place.begin, std::memory_order_relaxed);
  if (!slab.is_empty()) return;
  if (empty_slabs_[slab_class] >= kEmptySlabsPerClass) return retire_slab(place.page);
  ++empty_slabs_[slab_class];
}

Result<Heap::Place> Heap::take_run(size_t bytes) {
  const size_t data = round_up(round_up(bytes, kAlignment) + front_zone_ + back_zone_, kPageBytes);
  const size_t pages = (data >> kPageShift) + guard_pages();
  if (pages > page_count_) return out_of_memory(bytes);
  Result<uint32_t> first = take_pages(static_cast<uint32_t>(pages), data, bytes);
  if (!first.ok()) return first.take_status();
  count_used(data);

  Place place;
  place.page = first.value();
  place.begin = size_t{place.page} << kPageShift;
  place.end = place.begin + data;
  place.base = options_.guard_pages ? place.end - round_up(bytes, kAlignment) : place.begin + front_zone_;
  place.bytes = bytes;
  return place;
}

void Heap::give_run(const Place& place, bool warm) {
  const size_t data = place.end - place.begin;
  used_.fetch_sub(data, std::memory_order_relaxed);
  give_pages(place.page, static_cast<uint32_t>((data >> kPageShift) + guard_pages()), warm, data);
}

// Slabs

Status Heap::add_slab(unsigned shift, size_t requested) {
  Result<uint32_t> taken = take_pages(1, kPageBytes, requested);
  if (!taken.ok()) return taken.take_status();
  const uint32_t page = taken.value();
  PageRecord& slab = records_[page];
  slab.shift = shift;
  slab.fill_free();
  const uint16_t before = tags_[page].load(std::memory_order_relaxed) == 0 ? kSlotNever : kSlotFreed;
  for (size_t slot = 0; slot < kPageBytes >> shift; ++slot) {
    slots_[page * kSlotsPerPage + slot].store(before, std::memory_order_relaxed);
  }
  tags_[page].store(make_tag(kSlabTag, shift), std::memory_order_release);
  link_slab(page);
  ++empty_slabs_[shift - kMinSlotShift];
  return {};
}

void Heap::retire_slab(uint32_t page) {
  unlink_slab(page);
  give_pages(page, 1, /*warm=*/true, kPageBytes);
}

bool Heap::retire_empty_slabs() {
  bool retired = false;
  for (size_t slab_class = 0; slab_class < kSlabClasses; ++slab_class) {
    for (uint32_t link = open_slabs_[slab_class]; link != 0 && empty_slabs_[slab_class] > 0;) {
      const uint32_t page = link - 1;
      link = records_[page].next;
      if (!records_[page].is_empty()) continue;
      --empty_slabs_[slab_class];
      retire_slab(page);
      retired = true;
    }
  }
  return retired;
}

void Heap::link_slab(uint32_t page) {
  PageRecord& slab = records_[page];
  uint32_t& first = open_slabs_[slab.shift - kMinSlotShift];
  slab.previous = 0;
  slab.next = first;
  if (first != 0) records_[first - 1].previous = page + 1;
  first = page + 1;
}

void Heap::unlink_slab(uint32_t page) {
  const PageRecord& slab = records_[page];
  (slab.previous != 0 ? records_[slab.previous - 1].next : open_slabs_[slab.shift - kMinSlotShift]) = slab.next;
  if (slab.next != 0) records_[slab.next - 1].previous = slab.previous;
}

// Pages

Result<uint32_t> Heap::take_pages(uint32_t pages, size_t charge, size_t requested) {
  if (Status status = ledger_.charge(device_, charge, capacity(), host_limit_); !status.ok()) {
    return Status(status.code(), text("cannot allocate ", requested, " bytes: ", status.message()));
  }
  const std::optional<uint32_t> first = runs_.take(pages);
  if (!first) {
    ledger_.release(device_, charge);
    return out_of_memory(requested);
  }
  charged_ += charge;
  high_page_ = std::max(high_page_, *first + pages);
  return *first;
}

void Heap::give_pages(uint32_t first, uint32_t pages, bool warm, size_t charge) {
  const PageRun run = runs_.give(first, pages, warm);
  charged_ -= charge;
  ledger_.release(device_, charge);
  const uint32_t per_run = options_.poison ? kWarmPagesPoisoned : kWarmPagesPerRun;
  const uint32_t per_heap = options_.poison ? kWarmPagesPoisoned : kWarmPagesPerHeap;
  if (run.warm == 0 || (run.warm < per_run && runs_.warm() < per_heap)) return;
  if (engine_.release_pages(address(size_t{run.first} << kPageShift), size_t{run.pages} << kPageShift).ok()) {
    runs_.mark_cold(run);
  }
}

void Heap::count_used(size_t bytes) {
  const size_t used = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (used > peak_.load(std::memory_order_relaxed)) peak_.store(used, std::memory_order_relaxed);
}

// The index of blocks

void Heap::publish(const Place& place) {
  if (place.in_slab) {
    const unsigned shift = records_[place.page].shift;
    const size_t slot = (place.begin & (kPageBytes - 1)) >> shift;
    slots_[place.page * kSlotsPerPage + slot].store(static_cast<uint16_t>(place.bytes), std::memory_order_release);
    return;
  }
  PageRecord& run = records_[place.page];
  const auto pages = static_cast<uint32_t>(((place.end - place.begin) >> kPageShift) + guard_pages());
  run.base.store(place.base, std::memory_order_relaxed);
  run.pages.store(pages, std::memory_order_relaxed);
  const uint32_t tag = make_tag(kRunTag, place.page);
  for (uint32_t page = place.page; page < place.page + pages; ++page) tags_[page].store(tag, std::memory_order_release);
  run.bytes.store(place.bytes, std::memory_order_release);
}

void Heap::withdraw(const Place& place) {
  if (!place.in_slab) {
    records_[place.page].bytes.store(0, std::memory_order_release);
    return;
  }
  const size_t slot = (place.begin & (kPageBytes - 1)) >> records_[place.page].shift;
  slots_[place.page * kSlotsPerPage + slot].store(kSlotFreed, std::memory_order_release);
}

Status Heap::out_of_memory(size_t bytes) const {
  return {ACL_ERROR_RT_MEMORY_ALLOCATION,
          text("cannot allocate ", bytes, " bytes: device ", device_, " has ", capacity() - used(), " of ", capacity(),
               " bytes free, ", size_t{runs_.longest()} << kPageShift, " in one piece")};
}

}  // namespace softnpu
