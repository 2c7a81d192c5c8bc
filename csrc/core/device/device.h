// The devices of this process: their number, the current device, initialisation.
//
//   set_device(1);
//   bind_device();                   // before a call of the device library for the current device
//
// Each thread has a current device, 0 at its start. Setting it is cheap and does not call the device library. The device library
// has its own device per thread. bind_device() sets it to the current device; functions that need this call it themselves, for
// example getCurrentNPUStream(). The device library is initialised at the first bind.
//
// In a child of fork() whose parent used a device, functions that need a device throw and advise "spawn". device_count() works.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Export.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/limits.h"

namespace torch_npu {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

inline c10::Device npu_device(c10::DeviceIndex index) { return {kDeviceType, index}; }

namespace detail {

struct ThreadState {
  c10::DeviceIndex current_device = 0;
  c10::DeviceIndex bound_device = -1;                  // the device library's device of this thread; -1: none yet
  std::array<int32_t, kMaxDevices> current_streams{};  // StreamIds, which fit in 32 bits; 0 is the default stream
};
// A pointer, because a library that is loaded after torch may take little static TLS. Null until the thread's first use.
C10_EXPORT extern thread_local constinit ThreadState* known_thread_state __attribute__((tls_model("initial-exec")));
C10_EXPORT ThreadState& make_thread_state();

inline ThreadState& thread_state() {
  if (known_thread_state != nullptr) [[likely]]
    return *known_thread_state;
  return make_thread_state();
}

C10_EXPORT void bind_current_device();
// Throws as torch does for a device that does not exist.
[[noreturn]] C10_EXPORT void refuse_device(int64_t index);
// Throws in a child of fork() whose parent used a device.
void refuse_in_forked_child();

}  // namespace detail

// The number of devices; 0 if there is no usable device library. Cached after the first success. Never throws, and does not
// initialise the device library.
C10_EXPORT c10::DeviceIndex device_count() noexcept;

C10_EXPORT c10::DeviceIndex current_device() noexcept;
// Throws if there is no device `index`.
C10_EXPORT void set_device(c10::DeviceIndex index);
// Returns the previous current device.
C10_EXPORT c10::DeviceIndex exchange_device(c10::DeviceIndex index);

// `index`, or the current device for -1; throws if there is no such device.
C10_EXPORT c10::DeviceIndex checked_device(int64_t index);

// Calls of the device library on this thread go to the current device, until the current device changes.
inline void bind_device() {
  const detail::ThreadState& state = detail::thread_state();
  if (state.bound_device != state.current_device) [[unlikely]]
    detail::bind_current_device();
}

// Makes a device current and bound while it lives. Its destructor restores the current device and binds nothing.
class BoundDevice {
 public:
  explicit BoundDevice(c10::DeviceIndex index) : previous_(exchange_device(index)) { bind_device(); }
  ~BoundDevice() { detail::thread_state().current_device = previous_; }
  BoundDevice(const BoundDevice&) = delete;
  BoundDevice& operator=(const BoundDevice&) = delete;

 private:
  c10::DeviceIndex previous_;
};

// Initialises the device library. Functions that need it call this themselves.
C10_EXPORT void initialize();
// initialize() calls the functions once, in the order of these calls, which must come before it.
void call_at_initialization(void (*function)());
C10_EXPORT bool is_initialized() noexcept;
// Whether results can be infinite or NaN: the chip supports it, and INF_NAN_MODE_ENABLE is not 0.
C10_EXPORT bool supports_inf_nan();
// Whether this is a child of fork() whose parent used a device.
C10_EXPORT bool is_in_bad_fork() noexcept;
// Whether this process has used device `index`.
C10_EXPORT bool has_context(c10::DeviceIndex index) noexcept;

struct DeviceProperties {
  std::string name;
  uint64_t total_memory = 0;
  int64_t cube_core_num = 0;
  int64_t vector_core_num = 0;
  int64_t l2_cache_size = 0;
  std::string uuid;
};
C10_EXPORT DeviceProperties device_properties(c10::DeviceIndex index);

// Bytes free on device `index`, and its capacity.
C10_EXPORT std::pair<size_t, size_t> device_memory(c10::DeviceIndex index);

}  // namespace torch_npu
