#include "runtime/engine/arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/base/round_up.h"

namespace softnpu {
namespace {

constexpr size_t kGranule = size_t{64} << 10;
constexpr size_t kBaseAlignment = size_t{2} << 20;  // allows the host to use huge pages

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

Status system_failure(aclError code, const char* what) { return {code, text(what, ": ", std::strerror(errno))}; }

struct ArenaState {
  ArenaState() { heap_files.fill(-1); }

  std::mutex mutex;  // also held across fork(), so that a child never sees an incomplete mapping
  int device_count = 0;
  std::byte* base = nullptr;
  size_t span = 0;
  size_t total = 0;
  std::array<int, Arena::kMaxDevices> heap_files;
  std::map<std::byte*, size_t> segments;  // device address and length, a multiple of kGranule
};

ArenaState& arena_state() {
  static ArenaState* const leaked = new ArenaState;
  return *leaked;
}

// The kernel view is neither inherited by children nor dumped. madvise is needed again for each new mapping.
bool hide_from_children_and_dumps(void* address, size_t bytes) {
  return madvise(address, bytes, MADV_DONTFORK) == 0 && madvise(address, bytes, MADV_DONTDUMP) == 0;
}

bool close_range_of_kernel_view(void* address, size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(address, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED && hide_from_children_and_dumps(address, bytes);
}

Status map_file(void* address, size_t bytes, int file, off_t offset) {
  if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, offset) == MAP_FAILED) {
    return system_failure(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "device memory cannot be mapped");
  }
  if (hide_from_children_and_dumps(address, bytes)) return {};
  Status status = system_failure(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "device memory cannot be kept from child processes");
  close_range_of_kernel_view(address, bytes);
  return status;
}

// In a child of fork(): closes the files of the parent's heaps, and reserves the place of the kernel view without access, so that
// kernel addresses from before the fork() fault.
void forget_in_child() {
  ArenaState& arena = arena_state();
  for (int& file : arena.heap_files) {
    if (file >= 0) close(file);
    file = -1;
  }
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  mmap(arena.base + arena.total, arena.total, PROT_NONE, flags, -1, 0);
  arena.mutex.unlock();
}

void watch_for_fork() {
  static const int watching =
      pthread_atfork([] { arena_state().mutex.lock(); }, [] { arena_state().mutex.unlock(); }, [] { forget_in_child(); });
  static_cast<void>(watching);
}

Status check_device(const ArenaState& arena, int device) {
  if (device >= 0 && device < arena.device_count) return {};
  return {ACL_ERROR_RT_INVALID_DEVICEID, text("device ", device, " has no address space; there are ", arena.device_count)};
}

// The file of an open heap and the offset of a page-aligned range in it.
struct HeapRange {
  int file = -1;
  off_t offset = 0;
};

Result<HeapRange> find_in_heap(ArenaState& arena, const void* address, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(address);
  if (!Arena::contains(address)) return Status(ACL_ERROR_RT_PARAM_INVALID, text(address, " is not a device address"));
  const int device = Arena::device_of(address);
  const size_t offset = static_cast<size_t>(begin - arena.base) - static_cast<size_t>(device) * arena.span;
  const size_t capacity = Arena::capacity();
  const bool aligned = offset % page_bytes() == 0 && bytes % page_bytes() == 0;
  if (!aligned || offset > capacity || bytes > capacity - offset || arena.heap_files[device] < 0) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, text(bytes, " bytes at ", address, " are not whole pages of an open heap"));
  }
  return HeapRange{arena.heap_files[device], static_cast<off_t>(offset)};
}

Status check_in_segment(const ArenaState& arena, const void* address, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(address);
  auto segment = arena.segments.upper_bound(const_cast<std::byte*>(begin));
  const bool is_inside = segment != arena.segments.begin() && (--segment, begin + bytes <= segment->first + segment->second);
  const bool aligned = reinterpret_cast<uintptr_t>(address) % page_bytes() == 0 && bytes % page_bytes() == 0;
  if (is_inside && aligned && bytes > 0) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text(bytes, " bytes at ", address, " are not whole pages of a segment")};
}

}  // namespace

Status Arena::reserve(int device_count, size_t capacity) {
  capacity -= capacity % kGranule;
  if (device_count < 1 || device_count > kMaxDevices || capacity == 0 || capacity > kMaxCapacity) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("no address space for ", device_count, " devices of ", capacity, " bytes")};
  }
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  if (arena.device_count != 0) {
    if (arena.device_count == device_count && Arena::capacity() == capacity) return {};
    return {ACL_ERROR_RT_PARAM_INVALID, "the address space of the devices is reserved already, with other sizes"};
  }

  const size_t span = std::bit_ceil(2 * capacity);
  const size_t total = span * static_cast<size_t>(device_count);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* reservation = mmap(nullptr, 2 * total + kBaseAlignment, PROT_NONE, flags, -1, 0);
  if (reservation == MAP_FAILED) {
    return {ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text("the host gives no address space for ", device_count, " devices of ", capacity,
                                                   " bytes (", std::strerror(errno), "); use fewer or smaller devices")};
  }
  const uintptr_t base = round_up(reinterpret_cast<uintptr_t>(reservation), kBaseAlignment);
  arena.base = reinterpret_cast<std::byte*>(base);
  if (!hide_from_children_and_dumps(arena.base + total, total)) {
    Status status = system_failure(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "device memory cannot be kept from child processes");
    munmap(reservation, 2 * total + kBaseAlignment);
    return status;
  }
  arena.device_count = device_count;
  arena.span = span;
  arena.total = total;
  watch_for_fork();

  base_.store(base, std::memory_order_relaxed);
  span_shift_.store(static_cast<unsigned>(std::countr_zero(span)), std::memory_order_relaxed);
  capacity_.store(capacity, std::memory_order_relaxed);
  total_.store(total, std::memory_order_release);
  return {};
}

Result<void*> Arena::open_heap(int device) {
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  if (Status status = check_device(arena, device); !status.ok()) return status;
  std::byte* heap = arena.base + static_cast<size_t>(device) * arena.span;
  if (arena.heap_files[device] >= 0) return static_cast<void*>(heap);

  const int file = memfd_create("softnpu-heap", MFD_CLOEXEC);
  if (file < 0) return system_failure(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no file for device memory");
  if (ftruncate(file, static_cast<off_t>(capacity())) != 0) {
    Status status = system_failure(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "the file of device memory cannot grow to the capacity");
    close(file);
    return status;
  }
  if (Status status = map_file(kernel_address(heap), capacity(), file, 0); !status.ok()) {
    close(file);
    return status;
  }
  arena.heap_files[device] = file;
  return static_cast<void*>(heap);
}

int Arena::heap_file(int device) {
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  return device >= 0 && device < kMaxDevices ? arena.heap_files[device] : -1;
}

Status Arena::release_pages(void* address, size_t bytes) {
  HeapRange range;
  {
    ArenaState& arena = arena_state();
    std::lock_guard lock(arena.mutex);
    Result<HeapRange> found = find_in_heap(arena, address, bytes);
    if (!found.ok()) return found.take_status();
    range = found.value();
  }
  if (bytes == 0) return {};
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(range.file, mode, range.offset, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return system_failure(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "device memory cannot be given back to the host");
  }
  return {};
}

Status Arena::set_access(void* address, size_t bytes, bool accessible) {
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  Result<HeapRange> found = find_in_heap(arena, address, bytes);
  if (!found.ok()) return found.take_status();
  if (mprotect(kernel_address(address), bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) == 0) return {};
  return system_failure(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                        "access to device memory cannot be changed (guard pages may need a larger vm.max_map_count)");
}

Result<void*> Arena::reserve_segment(int device, size_t bytes) {
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  if (Status status = check_device(arena, device); !status.ok()) return status;
  if (bytes == 0 || bytes % page_bytes() != 0) {
    return Status(ACL_ERROR_RT_PARAM_INVALID, text("a segment of ", bytes, " bytes is not whole pages"));
  }
  std::byte* const span_begin = arena.base + static_cast<size_t>(device) * arena.span;
  std::byte* const span_end = span_begin + arena.span;
  std::byte* gap = span_begin + capacity();
  const auto room = [&](std::byte* end) { return static_cast<size_t>(end - gap); };
  auto next = arena.segments.lower_bound(gap);
  while (next != arena.segments.end() && next->first < span_end && room(next->first) < bytes) {
    gap = next->first + next->second;
    ++next;
  }
  if (room(span_end) < bytes) {
    return Status(ACL_ERROR_RT_MEMORY_ALLOCATION, text("device ", device, " has no room for a segment of ", bytes, " bytes"));
  }
  arena.segments.emplace(gap, round_up(bytes, kGranule));
  return static_cast<void*>(gap);
}

Status Arena::release_segment(void* address) {
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  const auto segment = arena.segments.find(static_cast<std::byte*>(address));
  if (segment == arena.segments.end()) return {ACL_ERROR_RT_PARAM_INVALID, text("no segment starts at ", address)};
  if (!close_range_of_kernel_view(kernel_address(address), segment->second)) {
    return system_failure(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "the segment cannot be unmapped");
  }
  arena.segments.erase(segment);
  return {};
}

Status Arena::map_in_segment(void* address, size_t bytes, int file, off_t offset) {
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  SOFTNPU_RETURN_IF_ERROR(check_in_segment(arena, address, bytes));
  return map_file(kernel_address(address), bytes, file, offset);
}

Status Arena::unmap_in_segment(void* address, size_t bytes) {
  ArenaState& arena = arena_state();
  std::lock_guard lock(arena.mutex);
  SOFTNPU_RETURN_IF_ERROR(check_in_segment(arena, address, bytes));
  if (close_range_of_kernel_view(kernel_address(address), bytes)) return {};
  return system_failure(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "device memory cannot be unmapped");
}

}  // namespace softnpu
