// Counts the device memory of all processes of a user on this host, in one file in shared memory.
//
//   Ledger ledger("/dev/shm");
//   SOFTNPU_RETURN_IF_ERROR(ledger.charge(device, bytes, device_capacity, host_limit));
//   ...
//   ledger.release(device, bytes);
//
// Every process maps the file and has an entry in it. While it lives, it holds a file lock on the byte of its entry. The kernel
// releases that lock when the process ends, and the other processes then subtract its memory. This works across PID namespaces.
//
// A child of fork() does not take part: it can neither charge nor release, and does not keep its parent's entry alive.
//
// A mutex that is held for about a second is replaced. A file that was truncated is set up again, and every process enters its
// memory again. Both print a warning with the path of the file.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace softnpu {

struct Usage {
  size_t process = 0;  // this process on the device
  size_t device = 0;   // all processes on the device
  size_t host = 0;     // all processes on all devices
};

// The time for which streams of a device have run tasks, summed over the streams of all living processes. Cheap tasks that run in
// the launching call are not counted.
struct BusyTime {
  std::chrono::nanoseconds total{0};
  std::chrono::steady_clock::time_point now;  // the time of the measurement
};

struct ProcessUsage {
  pid_t pid = 0;           // as seen in the PID namespace of that process
  std::string name;        // of its program, truncated
  int64_t start_time = 0;  // seconds since 1970 when it joined the ledger
  std::vector<size_t> device_bytes;
};

// Thread-safe.
class Ledger {
 public:
  static constexpr int kDevices = 64;
  static constexpr int kProcesses = 1024;

  // Opens the file in `folder`. If that fails, problem() has the reason, and the process counts its own memory only.
  explicit Ledger(const std::string& folder);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const Status& problem() const { return problem_; }

  // Adds `bytes` to the memory of this process on `device`. ACL_ERROR_RT_MEMORY_ALLOCATION, with the numbers, if all living
  // processes together would exceed the capacity of the device or the limit of the host.
  Status charge(int device, size_t bytes, size_t device_capacity, size_t host_limit);

  // Subtracts memory that was charged.
  void release(int device, size_t bytes);

  Usage usage(int device);

  // A stream of `device` begins or ends to run tasks. Takes no lock.
  void running(int device, bool begins);
  // Sum over all living processes.
  BusyTime busy_time(int device);

  // The living processes that joined, this one included.
  std::vector<ProcessUsage> processes();

  // For the handler of SIGBUS. If `address` lies in a ledger of this process whose file was truncated, restores the size of the
  // file and returns true: then the access can be repeated.
  static bool repair_fault(uintptr_t address);

 private:
  struct Table;
  class Lock;
  struct Registry;

  Status join(const std::string& folder);
  Status open_file(const std::string& path);
  Status map_table();
  void keep_own_account();
  void leave_after_fork();

  bool is_whole() const;
  void set_up_again();
  void unlock_by_force();

  // Call these with the table locked.
  Status take_entry();
  void fill_entry(int number);
  void reclaim_dead();
  bool is_alive(int entry) const;
  Status describe_full(int device, size_t bytes, size_t device_capacity, size_t host_limit) const;

  Status problem_;
  std::string path_;
  std::mutex repair_mutex_;
  int file_ = -1;                          // -1: this process counts its own memory only
  std::atomic<Table*> table_{nullptr};     // null in a child of fork()
  std::atomic<int> entry_{-1};             // workers read it without a lock
  std::array<uint64_t, kDevices> held_{};  // copy of the entry, in case the file is truncated; changed with the table locked
};

// The ledger of this process, in the folder of SOFTNPU_LEDGER_DIR. Made at the first call, and never destroyed.
Ledger& ledger();

}  // namespace softnpu
