// The messages of the heap about invalid addresses, and its debug modes.
#include <algorithm>

#include "runtime/memory/heap_layout.h"
#include "runtime/memory/mapped_ranges.h"

namespace softnpu {
namespace {

constexpr uint8_t kZoneByte = 0xC5;
constexpr uint8_t kFreshByte = 0xFF;
constexpr uint8_t kFreedByte = 0xDB;

}  // namespace

Status Heap::explain(const void* pointer, size_t bytes, const Place& place) const {
  const aclError code = ACL_ERROR_RT_PARAM_INVALID;
  if (place.state == Place::State::kNever) return {code, text(pointer, " is not allocated on device ", device_)};
  if (place.state == Place::State::kFreed) return {code, text("use after free: ", pointer, " was freed")};
  const auto inside = static_cast<ptrdiff_t>(offset_of(pointer)) - static_cast<ptrdiff_t>(place.base);
  return {code, text(bytes, " bytes at offset ", inside, " run past the ", inside < 0 ? "begin" : "end", " of the allocation of ",
                     place.bytes, " bytes at ", static_cast<void*>(address(place.base)))};
}

Status Heap::explain_free(const void* pointer, const Place& place) const {
  const aclError code = ACL_ERROR_RT_PARAM_INVALID;
  if (place.state == Place::State::kNever) return {code, text(pointer, " was never allocated on device ", device_)};
  if (place.state == Place::State::kFreed) return {code, text("double free: ", pointer, " was freed already")};
  return {code, text(pointer, " is not the base of an allocation; the one around it has ", place.bytes, " bytes and starts at ",
                     static_cast<void*>(address(place.base)))};
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
    // The address is in the guard page between two blocks, or before the first one.
    const Place next = locate(page << kPageShift);
    const size_t distance = offset < place.base ? place.base - offset : offset - (place.base + place.bytes);
    const bool is_nearer = place.state == MemoryState::kNever || next.base - offset < distance;
    if (next.state == MemoryState::kLive && next.base > offset && is_nearer) place = next;
  }
  if (place.state != MemoryState::kLive) return {};
  return {MemoryState::kLive, {address(place.base), place.bytes}};
}

void Heap::visit_live(const std::function<void(const Place&)>& visit) const {
  for (uint32_t page = 0; page < high_page_; ++page) {
    const uint32_t tag = tags_[page].load(std::memory_order_relaxed);
    const size_t begin = size_t{page} << kPageShift;
    const size_t step = kind_of_tag(tag) == kSlabTag ? size_t{1} << value_of_tag(tag) : kPageBytes;
    if (kind_of_tag(tag) == kRunTag && value_of_tag(tag) != page) continue;
    for (size_t offset = begin; offset < begin + kPageBytes; offset += step) {
      const Place place = locate(offset);
      if (place.state == Place::State::kLive) visit(place);
    }
  }
}

Status Heap::check_red_zones() {
  if (!options_.red_zones) return {};
  std::lock_guard lock(mutex_);
  Status damage;
  visit_live([&](const Place& place) {
    if (damage.ok()) damage = check_zones(place);
  });
  return damage;
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

Status Heap::prepare_fresh(const Place& place) {
  if (options_.guard_pages) {
    SOFTNPU_RETURN_IF_ERROR(engine_.set_access(address(place.begin), place.end - place.begin, true));
  }
  void* const base = engine_.alias(address(place.base));
  if (options_.red_zones) SOFTNPU_RETURN_IF_ERROR(fill_zones(place));
  return options_.poison ? engine_.fill(nullptr, base, kFreshByte, place.bytes) : Status();
}

Status Heap::retire_used(const Place& place) {
  Status damage = check_zones(place);
  if (options_.poison) {
    Status status = engine_.fill(nullptr, engine_.alias(address(place.base)), kFreedByte, place.bytes);
    if (damage.ok()) damage = std::move(status);
  }
  if (options_.guard_pages) {
    Status status = engine_.set_access(address(place.begin), place.end - place.begin, false);
    if (damage.ok()) damage = std::move(status);
  }
  return damage;
}

Status Heap::fill_zones(const Place& place) {
  void* const front = engine_.alias(address(place.base - front_zone_));
  void* const back = engine_.alias(address(place.base + place.bytes));
  SOFTNPU_RETURN_IF_ERROR(engine_.fill(nullptr, front, kZoneByte, front_zone_));
  return engine_.fill(nullptr, back, kZoneByte, place.end - place.base - place.bytes);
}

Status Heap::check_zones(const Place& place) {
  if (!options_.red_zones) return {};
  SOFTNPU_RETURN_IF_ERROR(check_zone(place, place.base - front_zone_, place.base));
  return check_zone(place, place.base + place.bytes, place.end);
}

Status Heap::check_zone(const Place& place, size_t begin, size_t end) {
  std::array<uint8_t, 1024> zone;
  for (size_t offset = begin; offset < end; offset += zone.size()) {
    const size_t bytes = std::min(zone.size(), end - offset);
    SOFTNPU_RETURN_IF_ERROR(engine_.copy(nullptr, zone.data(), engine_.alias(address(offset)), bytes));
    const auto damaged = std::find_if(zone.begin(), zone.begin() + bytes, [](uint8_t byte) { return byte != kZoneByte; });
    if (damaged == zone.begin() + bytes) continue;
    const auto where = static_cast<ptrdiff_t>(offset + (damaged - zone.begin())) - static_cast<ptrdiff_t>(place.base);
    return {ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW,
            text("the red zone of the allocation of ", place.bytes, " bytes at ", static_cast<void*>(address(place.base)),
                 " is damaged: it was overwritten at offset ", where)};
  }
  return {};
}

}  // namespace softnpu
