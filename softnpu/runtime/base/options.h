// Every setting of softnpu, in one place.
//
//   if (options().launch == LaunchMode::kQueue) ...
//
// The environment is read once, by the first call of options(); later changes of the environment are not seen. A setting that is
// unset or empty has its default, except that an empty ASCEND_RT_VISIBLE_DEVICES means no device. A bad value never stops the
// program: one warning per variable, on stderr and in the log, has the variable, its value, the allowed values and the value that
// is used instead.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/option_doc.h"

namespace softnpu {

enum class LaunchMode {
  kHybrid,   // a small task on an idle stream runs in the launching call, everything else is queued
  kQueue,    // every task is queued
  kSync,     // every launch returns after its task is done
  kShuffle,  // tasks run while a thread waits, streams in a random order (stream/shuffle.h)
};

enum class RaceCheck { kOff, kReport, kFail };

enum class LogLevel { kDebug, kInfo, kWarning, kError, kNone };

struct MemoryCheck {
  bool red_zones = false;
  bool poison = false;
  bool guard_pages = false;
};

// Sizes are in bytes; folders are absolute.
struct Options {
  int device_count = 8;              // number of devices of the host
  std::vector<int> visible_devices;  // element i is the host's number of the device that this process calls i
  uint64_t device_memory = 0;        // capacity of each device
  uint64_t host_memory = 0;          // limit for all devices of all processes together
  std::string soc_name = "Ascend910B3";
  bool chip_limits = false;  // float64 is refused, float16 saturates, the cube unit computes in float16
  LaunchMode launch = LaunchMode::kHybrid;
  uint64_t shuffle_seed = 0;
  MemoryCheck memory_check;
  RaceCheck race_check = RaceCheck::kOff;
  uint64_t dump_memory = uint64_t{256} << 20;  // the most bytes of dumps that wait for the disk
  std::string faults;                          // rules of checks/faults.h; empty: none
  bool fault_report = true;
  std::string ledger_dir = "/dev/shm";
  LogLevel log_level = LogLevel::kError;
  bool log_to_stdout = false;
  bool log_events = false;
  std::string log_dir;  // empty if $HOME is not set: then no log file is written
};

// Thread-safe; the reference stays valid until the process ends.
const Options& options();

// The rows of docs/environment.md.
std::span<const OptionDoc> option_docs();

}  // namespace softnpu
