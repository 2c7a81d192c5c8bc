// Devices of this process: how many, which is current, and first use.
//
// The current device is a number of the calling thread (0 at its start). Setting it is cheap and touches no device. ACL binds a
// device to a thread by itself; bind_device() makes the two agree and is called by everything here that needs it, for example
// getCurrentNPUStream(). The device library is initialised at the first bind.
//
// In a child of fork() whose parent used a device, whatever needs the device throws and advises "spawn"; device_count() answers.
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
  c10::DeviceIndex bound_device = -1;                  // where ACL calls of this thread go; -1: nowhere yet
  std::array<int32_t, kMaxDevices> current_streams{};  // StreamIds, which fit; 0 is the default stream
};
// One word of static TLS, all that a library loaded after torch may take; null until the thread's first use.
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

}  // namespace detail

// How many devices there are; 0 if there is no usable device library. Cached at its first success, never throws, initialises
// nothing.
C10_EXPORT c10::DeviceIndex device_count() noexcept;

C10_EXPORT c10::DeviceIndex current_device() noexcept;
// Throws if there is no device `index`.
C10_EXPORT void set_device(c10::DeviceIndex index);
// Returns the device that was current.
C10_EXPORT c10::DeviceIndex exchange_device(c10::DeviceIndex index);

// `index`, or the current device for -1; throws if there is no such device.
C10_EXPORT c10::DeviceIndex checked_device(int64_t index);

// From here to the next change of the current device, ACL calls of this thread go to the current device.
inline void bind_device() {
  const detail::ThreadState& state = detail::thread_state();
  if (state.bound_device != state.current_device) [[unlikely]]
    detail::bind_current_device();
}

// Makes another device current and bound while it lives.
class BoundDevice {
 public:
  explicit BoundDevice(c10::DeviceIndex index) : previous_(exchange_device(index)) { bind_device(); }
  ~BoundDevice() { detail::thread_state().current_device = previous_; }
  BoundDevice(const BoundDevice&) = delete;
  BoundDevice& operator=(const BoundDevice&) = delete;

 private:
  c10::DeviceIndex previous_;
};

// Initialises the device library, which happens by itself at first use.
C10_EXPORT void initialize();
C10_EXPORT bool is_initialized() noexcept;
// Whether operators give infinity and NaN: the chip can, and INF_NAN_MODE_ENABLE does not forbid it.
C10_EXPORT bool supports_inf_nan();
// Whether this is a child of fork() whose parent used a device.
C10_EXPORT bool is_in_bad_fork() noexcept;
// Whether device `index` was used by this process.
C10_EXPORT bool has_context(c10::DeviceIndex index) noexcept;

// Waits for all work of device `index`; a failed task is reported here, once.
C10_EXPORT void synchronize_device(c10::DeviceIndex index);

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
