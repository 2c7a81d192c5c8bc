#include "runtime/driver.h"

#include "runtime/api/entry.h"
#include "runtime/base/message.h"
#include "runtime/base/options.h"
#include "runtime/engine/arena.h"
#include "runtime/memory/heaps.h"
#include "runtime/memory/virtual_memory.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/copy.h"
#include "runtime/stream/submit_with_faults.h"

namespace softnpu {
namespace {

aclError launch(aclrtStream handle, const SoftnpuTaskKind* kind, const void* payload, size_t bytes, uint64_t cost) {
  return entry::guarded(kind->name, [&]() -> Status {
    SOFTNPU_RETURN_IF_ERROR(entry::ready());
    Stream* stream = nullptr;
    SOFTNPU_RETURN_IF_ERROR(entry::resolve_stream(handle, "stream", /*nullable=*/true, &stream));
    if (bytes > SOFTNPU_TASK_PAYLOAD) {
      return {ACL_ERROR_INTERNAL_ERROR, text("a payload of ", bytes, " bytes is larger than ", int(SOFTNPU_TASK_PAYLOAD))};
    }
    return submit_with_faults(FaultPoint::kLaunch, *stream, *kind, payload, bytes, cost);
  });
}

aclError alias(const void* pointer, size_t bytes, void** result) {
  return entry::guarded("softnpu alias", [&]() -> Status {
    Result<Place> place = locate(pointer, bytes, "pointer");
    if (!place.ok()) return place.take_status();
    if (place.value().kind == Place::Kind::kPageable) {
      return {ACL_ERROR_RT_PARAM_INVALID,
              text(pointer, " is pageable host memory; kernels need device, pinned or registered memory")};
    }
    *result = place.value().address;
    return {};
  });
}

bool find_allocation(const void* pointer, uintptr_t* begin, size_t* bytes) {
  const Heap* heap = Arena::contains(pointer) ? Heaps::find(pointer).heap : nullptr;
  if (heap == nullptr) return false;
  const std::optional<Allocation> found = heap->find(pointer);
  if (!found) return false;
  *begin = reinterpret_cast<uintptr_t>(found->base);
  *bytes = found->bytes;
  return true;
}

bool find_file(const void* pointer, size_t bytes, int* file, uint64_t* offset) {
  if (!Arena::contains(pointer)) return false;
  const int device = Arena::device_of(pointer);
  *file = Arena::heap_file(device);
  if (*file < 0) return false;
  const auto* const heap = static_cast<const std::byte*>(Arena::heap_begin(device));
  const auto* const begin = static_cast<const std::byte*>(pointer);
  if (begin + bytes <= heap + Arena::capacity()) {
    *offset = static_cast<uint64_t>(begin - heap);
    return true;
  }
  const std::optional<VirtualMemory::Piece> piece = VirtualMemory::piece_at(pointer);
  if (!piece || piece->bytes < bytes) return false;
  *offset = static_cast<uint64_t>(piece->offset);
  return true;
}

int32_t host_device(int32_t device) {
  const std::vector<int>& visible = options().visible_devices;
  return device >= 0 && static_cast<size_t>(device) < visible.size() ? visible[static_cast<size_t>(device)] : -1;
}

aclError fail(const char* function, aclError code, const char* message) { return entry::fail(function, Status(code, message)); }

// The device that owns the kernel address; null for host memory.
Device* device_behind(const void* kernel_address) {
  const Arena::Range range = Arena::device_range();
  const auto* pointer =
      reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(kernel_address) - static_cast<uintptr_t>(range.kernel_offset));
  if (!Arena::contains(pointer) || !device_is_visible(Arena::device_of(pointer))) return nullptr;
  return &device_at(Arena::device_of(pointer));
}

bool saturates(const void* kernel_address) {
  const Device* device = device_behind(kernel_address);
  return device != nullptr && device->saturates();
}

void raise_overflow(const void* kernel_address) {
  Device* device = device_behind(kernel_address);
  if (device != nullptr) device->overflowed.store(true, std::memory_order_release);
}

aclError check_zones(const void* kernel_address, char* message) {
  const Device* device = device_behind(kernel_address);
  Heap* heap = device == nullptr ? nullptr : device->heap();
  if (heap == nullptr) return ACL_SUCCESS;
  const auto* pointer = static_cast<const std::byte*>(kernel_address) - Arena::device_range().kernel_offset;
  const Status status = heap->check_red_zones_of(pointer);
  if (!status.ok()) write_message(message, status.message());
  return status.code();
}

bool alter_captured(aclrtStream handle, bool (*alter)(const SoftnpuTaskKind** kind, void* payload, void* context),
                    void* context) {
  Stream* stream = nullptr;
  if (!entry::resolve_stream(handle, "stream", /*nullable=*/true, &stream).ok()) return false;
  return captures().alter(*stream, [&](RecordedTask& task) { return alter(task.kind_pointer(), task.payload(), context); });
}

}  // namespace
}  // namespace softnpu

const SoftnpuDriver* softnpuDriver(uint32_t version) {
  if (version != SOFTNPU_DRIVER_VERSION) return nullptr;
  static const SoftnpuDriver* driver = [] {
    using softnpu::Arena;
    (void)softnpu::open_engine();  // on failure there are no device addresses, and aclrtSetDevice returns the reason
    const Arena::Range range = Arena::device_range();
    return new SoftnpuDriver{.version = SOFTNPU_DRIVER_VERSION,
                             .device_begin = range.begin,
                             .device_end = range.end,
                             .alias_offset = range.kernel_offset,
                             .frees = softnpu::Heap::frees(),
                             .launch = softnpu::launch,
                             .alias = softnpu::alias,
                             .find_allocation = softnpu::find_allocation,
                             .fail = softnpu::fail,
                             .raise_overflow = softnpu::raise_overflow,
                             .check_zones = softnpu::options().memory_check.red_zones ? softnpu::check_zones : nullptr,
                             .limits = softnpu::Device::limits(),
                             .saturates = softnpu::saturates,
                             .alter_captured = softnpu::alter_captured,
                             .find_file = softnpu::find_file,
                             .host_device = softnpu::host_device};
  }();
  return driver;
}
