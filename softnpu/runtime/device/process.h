// The state of the process: initialisation, exit, and the table of devices.
//
//   SOFTNPU_RETURN_IF_ERROR(Process::ready());
//   Result<Device*> device = find_device(0);
//
// No object has a destructor that runs at exit, because other threads may still use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace softnpu {

// Makes engine() at the first call. Fails if the host cannot supply the address space of the devices.
Status open_engine();

// The visible devices, by the numbers of this process. May be called before aclInit.
std::span<Device* const> devices();
// ACL_ERROR_RT_INVALID_DEVICEID if no visible device has that number.
Result<Device*> find_device(int64_t number);
// Whether the device with this number of the host is visible to this process.
bool device_is_visible(int host_number);
// The visible device with this number of the host.
Device& device_at(int host_number);

class Process {
 public:
  // aclInit. `config_path` may be null. ACL_ERROR_REPEAT_INITIALIZE if the library is initialised already; the call still adds a
  // user.
  static Status initialise(const char* config_path);
  // aclFinalize: skips pending tasks, destroys streams, events and contexts, and frees device memory.
  static Status finalise();
  // aclFinalizeReference: removes a user; the last one finalises. Returns the number of remaining users.
  static Result<uint64_t> finalise_reference();

  // Fails before aclInit, after aclFinalize, and in a child of fork() whose parent used a device.
  static Status ready() {
    if (state_.load(std::memory_order_acquire) == State::kReady) [[likely]]
      return {};
    return not_ready();
  }
  static bool is_forked_child() { return state_.load(std::memory_order_relaxed) == State::kForkedChild; }
  // Whether the configuration of aclInit sets one recent error per process instead of one per thread.
  static bool shares_recent_error() { return shares_recent_error_.load(std::memory_order_relaxed); }

  // After this call a child of fork() cannot use devices.
  static void note_device_use() { uses_devices_.store(true, std::memory_order_relaxed); }

  static SystemParameters& parameters();

  // aclrtSetOpWaitTimeout; 0 means no limit.
  static inline std::atomic<uint32_t> wait_timeout_seconds{0};

 private:
  enum class State { kNotInitialised, kReady, kFinalised, kForkedChild };
  static Status not_ready();
  static Status read_config(const char* path);
  static Status read_error_mode(const class Json& config, const char* path);
  static void install_handlers_once();
  static void finalise_locked();
  static void stop_at_exit();

  static inline std::atomic<State> state_{State::kNotInitialised};
  static inline std::atomic<bool> shares_recent_error_{false};
  static inline std::atomic<bool> uses_devices_{false};
};

}  // namespace softnpu
