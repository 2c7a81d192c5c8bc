// The process as a whole: initialisation, its end, and what exists once.
//
// Nothing here has a destructor that runs at exit: a thread that still works must not meet a destroyed object.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/engine.h"
#include "runtime/memory/host_memory.h"
#include "runtime/memory/ledger.h"

namespace softnpu {

// Makes the engine at its first call; fails where the host cannot supply the devices' address space.
Status open_engine();
// The engine, which was opened.
Engine& engine();
// Both are made at their first use.
Ledger& ledger();
HostMemory& host_memory();

// The devices that this process sees, in its own numbering. Does not need initialisation.
std::span<Device* const> devices();
// ACL_ERROR_RT_INVALID_DEVICEID if there is none with that number.
Result<Device*> find_device(int64_t number);
// Whether this process sees the device that the host counts as `host_number`.
bool device_is_visible(int host_number);
// That device.
Device& device_at(int host_number);

class Process {
 public:
  // aclInit. `config_path` may be null. ACL_ERROR_REPEAT_INITIALIZE when it is initialised already, which counts as another user
  // all the same.
  static Status initialise(const char* config_path);
  // aclFinalize: drops pending work, streams, events, contexts and device memory.
  static Status finalise();
  // aclFinalizeReference: one user less; the last one finalises. Returns how many are left.
  static Result<uint64_t> finalise_reference();

  // Whether calls that need aclInit are legal now: not before it, not after aclFinalize, and not in a child of fork() whose
  // parent used a device.
  static Status ready() {
    if (state_.load(std::memory_order_acquire) == State::kReady) [[likely]]
      return {};
    return not_ready();
  }
  static bool is_forked_child() { return state_.load(std::memory_order_relaxed) == State::kForkedChild; }
  // aclInit's configuration asked for one recent error per process instead of one per thread.
  static bool shares_recent_error() { return shares_recent_error_.load(std::memory_order_relaxed); }

  // Notes that a device is in use: from then on a child of fork() cannot use devices.
  static void note_device_use() { uses_devices_.store(true, std::memory_order_relaxed); }

  static SystemParameters& parameters();

  // aclrtSetOpWaitTimeout; 0 means none.
  static inline std::atomic<uint32_t> wait_timeout_seconds{0};

 private:
  enum class State { kNotInitialised, kReady, kFinalised, kForkedChild };
  static Status not_ready();
  static Status read_config(const char* path);
  static void install_handlers_once();
  static void finalise_locked();
  static void stop_at_exit();

  static inline std::atomic<State> state_{State::kNotInitialised};
  static inline std::atomic<bool> shares_recent_error_{false};
  static inline std::atomic<bool> uses_devices_{false};
};

}  // namespace softnpu
