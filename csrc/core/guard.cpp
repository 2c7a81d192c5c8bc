#include "core/guard.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <mutex>

#include "core/memory/allocator.h"
#include "core/stream/event.h"
#include "core/stream/sync_debug.h"

namespace torch_npu {
namespace {

PooledEvent& event_of(void* event) { return *static_cast<PooledEvent*>(event); }

C10_REGISTER_GUARD_IMPL(PrivateUse1, NPUGuardImpl);

std::atomic<bool> has_old_thread_pool{false};  // in a child of fork(), until the pool is replaced

[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] { has_old_thread_pool = true; });

// In a child of fork(), the first call of at::set_num_threads() replaces torch's thread pool. A second thread that calls it at
// the same moment may find no pool, and ends the process.
void replace_thread_pool() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!has_old_thread_pool) return;
  at::set_num_threads(at::get_num_threads());
  has_old_thread_pool = false;
}

}  // namespace

NPUGuardImpl::NPUGuardImpl(c10::DeviceType type) {
  TORCH_INTERNAL_ASSERT(type == kDeviceType, "this guard is for NPUs, but was made for ", type);
}

// Autograd asks for the count before it starts a thread for each device. Each of these threads calls at::set_num_threads().
c10::DeviceIndex NPUGuardImpl::deviceCount() const noexcept {
  if (has_old_thread_pool.load(std::memory_order_relaxed)) replace_thread_pool();
  return device_count();
}

void NPUGuardImpl::uncheckedSetDevice(c10::Device device) const noexcept {
  if (device.index() >= 0 && device.index() < device_count()) detail::thread_state().current_device = device.index();
}

c10::DeviceCapability NPUGuardImpl::getDeviceCapability(c10::Device) const {
  constexpr auto bit = [](auto index) { return uint64_t{1} << index; };
  c10::DeviceCapability capability;
  capability.capability_data.capability_bits =
      bit(c10::kIndex_Bool) | bit(c10::kIndex_Byte) | bit(c10::kIndex_Char) | bit(c10::kIndex_Short) | bit(c10::kIndex_Int) |
      bit(c10::kIndex_Long) | bit(c10::kIndex_UInt16) | bit(c10::kIndex_UInt32) | bit(c10::kIndex_UInt64) |
      bit(c10::kIndex_Half) | bit(c10::kIndex_BFloat16) | bit(c10::kIndex_Float) | bit(c10::kIndex_Double) |
      bit(c10::kIndex_ComplexHalf) | bit(c10::kIndex_ComplexFloat) | bit(c10::kIndex_ComplexDouble) |
      bit(c10::kIndex_Float8_e5m2) | bit(c10::kIndex_Float8_e4m3fn) | bit(c10::kIndex_Float8_e5m2fnuz) |
      bit(c10::kIndex_Float8_e4m3fnuz) | bit(c10::kIndex_Float8_e8m0fnu);
  return capability;
}

c10::Stream NPUGuardImpl::getStream(c10::Device device) const { return current_stream_of(device.index()); }

c10::Stream NPUGuardImpl::getDefaultStream(c10::Device device) const { return getDefaultNPUStream(device.index()); }

c10::Stream NPUGuardImpl::getStreamFromGlobalPool(c10::Device device, bool high_priority) const {
  return getNPUStreamFromPool(high_priority, device.index());
}

c10::Stream NPUGuardImpl::getNewStream(c10::Device device, int priority) const {
  return getNPUStreamFromPool(priority < 0, device.index());
}

c10::Stream NPUGuardImpl::exchangeStream(c10::Stream stream) const {
  const c10::Stream previous = getStream(stream.device());
  setCurrentNPUStream(NPUStream(stream));
  return previous;
}

void* NPUGuardImpl::getStreamNativeHandle(c10::Stream stream) const { return NPUStream(stream).stream(); }

bool NPUGuardImpl::queryStream(const c10::Stream& stream) const { return NPUStream(stream).query(); }

void NPUGuardImpl::synchronizeStream(const c10::Stream& stream) const {
  report_sync("Stream.synchronize()", "that is what it is for");
  NPUStream(stream).synchronize();
}

void NPUGuardImpl::record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/, c10::EventFlag flag) const {
  if (*event == nullptr) {
    *event = take_event(stream.device_index(), flag == c10::EventFlag::BACKEND_DEFAULT ? Timing::kOn : Timing::kOff);
  }
  record_event(event_of(*event), NPUStream(stream));
}

void NPUGuardImpl::block(void* event, const c10::Stream& stream) const {
  if (event != nullptr) block_stream(event_of(event), NPUStream(stream));
}

bool NPUGuardImpl::queryEvent(void* event) const { return event == nullptr || event_reached(event_of(event)); }

void NPUGuardImpl::destroyEvent(void* event, c10::DeviceIndex) const noexcept {
  if (event != nullptr) return_event(&event_of(event));
}

void NPUGuardImpl::synchronizeEvent(void* event) const {
  if (event != nullptr) synchronize_event(event_of(event));
}

double NPUGuardImpl::elapsedTime(void* start, void* end, c10::DeviceIndex) const {
  TORCH_CHECK(start != nullptr && end != nullptr, "both events must be recorded before the time between them can be told");
  return elapsed_ms(event_of(start), event_of(end));
}

void NPUGuardImpl::recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const {
  recordStream(pointer, NPUStream(stream));
}

}  // namespace torch_npu
