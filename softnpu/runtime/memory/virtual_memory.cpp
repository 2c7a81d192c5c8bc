#include "runtime/memory/virtual_memory.h"

#include <map>
#include <mutex>

#include "runtime/base/round_up.h"
#include "runtime/engine/arena.h"
#include "runtime/memory/ipc_memory.h"
#include "runtime/memory/mapped_ranges.h"

namespace softnpu {
namespace {

struct Physical {
  Heap* heap;
  int device;
  void* block;      // result of Heap::allocate
  std::byte* base;  // first page boundary in the block
  size_t bytes;
  bool is_mapped = false;
};

struct Mapping {
  void* handle;
  std::byte* reservation;
};

struct VirtualMemoryState {
  std::mutex mutex;
  std::map<std::byte*, size_t> reservations;
  std::map<std::byte*, Mapping> mappings;
  std::map<void*, Physical> memory;
  uintptr_t newest_handle = 0;
};

VirtualMemoryState& virtual_memory_state() {
  static VirtualMemoryState* const leaked = new VirtualMemoryState;
  return *leaked;
}

std::byte* next_granule(void* pointer) {
  return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(pointer), VirtualMemory::kGranularity));
}

Status check_size(size_t bytes) {
  if (bytes > 0 && bytes % VirtualMemory::kGranularity == 0) return {};
  return {ACL_ERROR_RT_PARAM_INVALID,
          text("argument 'size' (", bytes, ") is not a multiple of the granularity, ", VirtualMemory::kGranularity)};
}

// The last element of a map by address that begins at or before `pointer`; the end if there is none.
template <typename Map>
auto at_or_before(Map& map, const void* pointer) {
  auto found = map.upper_bound(static_cast<std::byte*>(const_cast<void*>(pointer)));
  return found == map.begin() ? map.end() : std::prev(found);
}

void end_mapping(VirtualMemoryState& all, std::map<std::byte*, Mapping>::iterator mapping) {
  Physical& memory = all.memory.at(mapping->second.handle);
  IpcMemory::forget_exports(mapping->first, memory.bytes);
  MappedRanges::instance().remove(mapping->first, memory.bytes);
  memory.is_mapped = false;
  all.mappings.erase(mapping);
}

}  // namespace

Result<void*> VirtualMemory::reserve(int device, size_t bytes) {
  SOFTNPU_RETURN_IF_ERROR(check_size(bytes));
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  Result<void*> address = Arena::reserve_segment(device, bytes);
  if (address.ok()) all.reservations.emplace(static_cast<std::byte*>(address.value()), bytes);
  return address;
}

Status VirtualMemory::release(void* address) {
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  const auto range = all.reservations.find(static_cast<std::byte*>(address));
  if (range == all.reservations.end()) return {ACL_ERROR_RT_PARAM_INVALID, text("no reservation starts at ", address)};
  const auto mapping = all.mappings.lower_bound(range->first);
  if (mapping != all.mappings.end() && mapping->first < range->first + range->second) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("memory is mapped at ", static_cast<void*>(mapping->first), "; unmap it first")};
  }
  SOFTNPU_RETURN_IF_ERROR(Arena::release_segment(address));
  all.reservations.erase(range);
  return {};
}

Result<void*> VirtualMemory::take(int device, Heap& heap, size_t bytes) {
  SOFTNPU_RETURN_IF_ERROR(check_size(bytes));
  // With red zones or guard pages a block does not begin at a page boundary.
  const size_t more = heap.has_whole_pages() ? 0 : kGranularity;
  Result<void*> block = heap.allocate(bytes + more);
  if (!block.ok()) return block.take_status();
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  // Odd, so that it cannot be confused with an address.
  all.newest_handle += 2;
  auto* const handle = reinterpret_cast<void*>(all.newest_handle + 1);
  all.memory.emplace(handle, Physical{&heap, device, block.value(), next_granule(block.value()), bytes});
  return handle;
}

Status VirtualMemory::give(void* handle) {
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  const auto memory = all.memory.find(handle);
  if (memory == all.memory.end()) return {ACL_ERROR_RT_PARAM_INVALID, text(handle, " is no physical memory, or was freed")};
  if (memory->second.is_mapped) return {ACL_ERROR_RT_PARAM_INVALID, "the memory is mapped; unmap it first"};
  Status status = memory->second.heap->free(memory->second.block);
  all.memory.erase(memory);
  return status;
}

Status VirtualMemory::map(void* address, size_t bytes, void* handle) {
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.memory.find(handle);
  if (found == all.memory.end()) return {ACL_ERROR_RT_PARAM_INVALID, text(handle, " is no physical memory, or was freed")};
  Physical& memory = found->second;
  if (memory.is_mapped) return {ACL_ERROR_RT_PARAM_INVALID, "the memory is mapped already"};
  if (bytes != memory.bytes) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("argument 'size' (", bytes, ") is not that of the memory, ", memory.bytes)};
  }
  auto* const begin = static_cast<std::byte*>(address);
  const auto range = at_or_before(all.reservations, address);
  const bool is_reserved = range != all.reservations.end() && begin + bytes <= range->first + range->second;
  if (!is_reserved || reinterpret_cast<uintptr_t>(address) % kGranularity != 0) {
    return {ACL_ERROR_RT_PARAM_INVALID,
            text(bytes, " bytes at ", address, " are not reserved, or not at a multiple of ", kGranularity)};
  }
  if (Arena::device_of(address) != memory.device) {
    return {ACL_ERROR_RT_INVALID_DEVICEID, "the reserved addresses and the memory belong to different devices"};
  }
  const auto before = at_or_before(all.mappings, begin + bytes - 1);
  if (before != all.mappings.end() && before->first + all.memory.at(before->second.handle).bytes > begin) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("memory is mapped at ", static_cast<void*>(before->first), " already")};
  }
  const auto* const heap = static_cast<std::byte*>(Arena::heap_begin(memory.device));
  SOFTNPU_RETURN_IF_ERROR(Arena::map_in_segment(address, bytes, Arena::heap_file(memory.device), memory.base - heap));
  MappedRanges::instance().add(begin, bytes, range->first);
  all.mappings.emplace(begin, Mapping{handle, range->first});
  memory.is_mapped = true;
  return {};
}

Status VirtualMemory::unmap(void* address) {
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  const auto mapping = all.mappings.find(static_cast<std::byte*>(address));
  if (mapping == all.mappings.end()) return {ACL_ERROR_RT_PARAM_INVALID, text("nothing is mapped at ", address)};
  const size_t bytes = all.memory.at(mapping->second.handle).bytes;
  end_mapping(all, mapping);
  return Arena::unmap_in_segment(address, bytes);
}

std::optional<VirtualMemory::Piece> VirtualMemory::piece_at(const void* pointer) {
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  const auto mapping = at_or_before(all.mappings, pointer);
  if (mapping == all.mappings.end()) return std::nullopt;
  const Physical& memory = all.memory.at(mapping->second.handle);
  const auto inside = static_cast<const std::byte*>(pointer) - mapping->first;
  if (static_cast<size_t>(inside) >= memory.bytes) return std::nullopt;
  const auto* const heap = static_cast<std::byte*>(Arena::heap_begin(memory.device));
  return Piece{memory.base - heap + inside, memory.bytes - static_cast<size_t>(inside)};
}

void VirtualMemory::forget_device(int device) {
  VirtualMemoryState& all = virtual_memory_state();
  const std::lock_guard lock(all.mutex);
  for (auto mapping = all.mappings.begin(); mapping != all.mappings.end();) {
    const auto next = std::next(mapping);
    if (Arena::device_of(mapping->first) == device) end_mapping(all, mapping);
    mapping = next;
  }
  std::erase_if(all.reservations, [&](const auto& range) {
    return Arena::device_of(range.first) == device && Arena::release_segment(range.first).ok();
  });
  std::erase_if(all.memory, [&](const auto& entry) { return entry.second.device == device; });
}

}  // namespace softnpu
