#include "runtime/memory/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "runtime/memory/mapped_ranges.h"

namespace softnpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kZoneBytes = 256;

// How much free memory stays with the heap because the host takes long to give it again.
constexpr size_t kReleaseAtOnce = size_t{1} << 20;  // a freed run of this size goes back
constexpr uint32_t kWarmPagesPerRun = 64;
constexpr uint32_t kWarmPagesPerHeap = 512;
constexpr uint32_t kWarmPagesPoisoned = 4096;
constexpr uint32_t kEmptySlabsPerClass = 4;

// A page's tag: what it is part of, and the slot size of its slab or the first page of its run. 0: never handed out. A tag
// outlives its block, so that a late user of the address can be told that it was freed.
constexpr uint32_t kSlabTag = 1;
constexpr uint32_t kRunTag = 2;
constexpr uint32_t make_tag(uint32_t kind, uint32_t value) { return value << 2 | kind; }
constexpr uint32_t kind_of(uint32_t tag) { return tag & 3; }
constexpr uint32_t value_of(uint32_t tag) { return tag >> 2; }

// A slot's word is the size of its live block, or one of these.
constexpr uint16_t kSlotNever = 0;
constexpr uint16_t kSlotFreed = 0xFFFF;

// A plain number, changed atomically: C code reads it too.
constinit uint64_t g_frees = 0;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

struct Heap::PageRecord {
  // First page of a run. Written before `bytes`, which is 0 unless a live block is there.
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> base;
  std::atomic<uint32_t> pages;

  // Slab. Guarded by the heap's lock; links are page numbers plus 1.
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
    // Slow, and nobody else can have these pages yet. Pages that the host does not take stay warm: no failure of free().
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
  const size_t inside = offset - place.base;  // huge in a front zone
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

MemoryInfo Heap::inspect(const void* pointer) const {
  const size_t offset = offset_of(pointer);
  if (offset >= span_.bytes) {
    const std::optional<Allocation> range = MappedRanges::find_at_once(pointer);
    return range ? MemoryInfo{MemoryState::kLive, *range} : MemoryInfo{};
  }
  Place place = locate(offset);
  const bool inside = place.state == MemoryState::kLive && offset - place.base < place.bytes;
  if (place.state == MemoryState::kFreed) return {MemoryState::kFreed, {}};
  if (const size_t page = (offset >> kPageShift) + 1; !inside && page < page_count_) {
    // In the guard page between two blocks, or before the first one.
    const Place next = locate(page << kPageShift);
    const size_t distance = offset < place.base ? place.base - offset : offset - (place.base + place.bytes);
    const bool is_nearer = place.state == MemoryState::kNever || next.base - offset < distance;
    if (next.state == MemoryState::kLive && next.base > offset && is_nearer) place = next;
  }
  if (place.state != MemoryState::kLive) return {};
  return {MemoryState::kLive, {address(place.base), place.bytes}};
}

Status Heap::check_red_zones_of(const void* pointer) {
  const size_t offset = offset_of(pointer);
  if (!options_.red_zones || offset >= span_.bytes) return {};
  std::lock_guard lock(mutex_);
  const Place place = locate(offset);
  if (place.state != Place::State::kLive || offset - place.base >= place.bytes) return {};
  Status damage = check_zones(place);
  if (!damage.ok()) SOFTNPU_RETURN_IF_ERROR(fill_zones(place));
  return damage;
}

void Heap::release_all() {
  std::lock_guard lock(mutex_);
  visit_live([&](const Place& place) { withdraw(place); });
  count_free();
  if (const size_t bytes = size_t{high_page_} << kPageShift; bytes > 0) {
    // As in free(): what the host does not take back now is only kept longer.
    static_cast<void>(engine_.release_pages(span_.begin, bytes));
    if (options_.guard_pages) static_cast<void>(engine_.set_access(span_.begin, bytes, false));
  }
  // With guard pages the first block needs a closed page before it; every other one has its neighbour's guard there, or a free
  // page.
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

// What is where

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
  // A page behind the run has the tag of a longer one that was freed.
  place.state = place.bytes != 0 && page < first + pages ? Place::State::kLive : Place::State::kFreed;
  return place;
}

inline Heap::Place Heap::locate(size_t offset) const {
  const auto page = static_cast<uint32_t>(offset >> kPageShift);
  const uint32_t tag = tags_[page].load(std::memory_order_acquire);
  if (kind_of(tag) == kRunTag) return run_place(value_of(tag), page);
  if (kind_of(tag) == kSlabTag) return slot_place(page, value_of(tag), (offset & (kPageBytes - 1)) >> value_of(tag));
  return {};
}

void Heap::visit_live(const std::function<void(const Place&)>& visit) const {
  for (uint32_t page = 0; page < high_page_; ++page) {
    const uint32_t tag = tags_[page].load(std::memory_order_relaxed);
    const size_t begin = size_t{page} << kPageShift;
    const size_t step = kind_of(tag) == kSlabTag ? size_t{1} << value_of(tag) : kPageBytes;
    if (kind_of(tag) == kRunTag && value_of(tag) != page) continue;
    for (size_t offset = begin; offset < begin + kPageBytes; offset += step) {
      const Place place = locate(offset);
      if (place.state == Place::State::kLive) visit(place);
    }
  }
}

Status Heap::out_of_memory(size_t bytes) const {
  return {ACL_ERROR_RT_MEMORY_ALLOCATION,
          text("cannot allocate ", bytes, " bytes: device ", device_, " has ", capacity() - used(), " of ", capacity(),
               " bytes free, ", size_t{runs_.longest()} << kPageShift, " in one piece")};
}

}  // namespace softnpu
