// One account of device memory for all processes of a user on this host.
//
//   Ledger ledger("/dev/shm");
//   SOFTNPU_RETURN_IF_ERROR(ledger.charge(device, bytes, device_capacity, host_limit));
//   ...
//   ledger.release(device, bytes);
//
// It is a small file that every process maps. A process holds a lock on a byte of it while it lives, in whatever PID namespace;
// the kernel drops that lock when the process ends, however it ends, and the others then take what it held off the account.
//
// A child of fork() has no part in it: it can neither charge nor release, and does not keep its parent's entry alive.
//
// A file that somebody left locked is unlocked after a second; one that was cut short or emptied is set up anew, and every
// process enters again what it holds. A warning names the file.
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

// How long streams of a device have run tasks since their processes began, added up over streams; what cheap tasks take that run
// in the launching call is not in it.
struct BusyTime {
  std::chrono::nanoseconds total{0};
  std::chrono::steady_clock::time_point now;  // when that was so
};

struct ProcessUsage {
  pid_t pid = 0;           // as the process itself sees it
  std::string name;        // of its program, shortened
  int64_t start_time = 0;  // seconds since 1970 when it joined the ledger
  std::vector<size_t> device_bytes;
};

// Thread-safe.
class Ledger {
 public:
  static constexpr int kDevices = 64;
  static constexpr int kProcesses = 1024;

  // Joins the account kept in `folder`. If that is impossible, problem() says why and the process has an account of its own.
  explicit Ledger(const std::string& folder);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const Status& problem() const { return problem_; }

  // Adds to what this process holds of `device`. ACL_ERROR_RT_MEMORY_ALLOCATION, with the numbers, when all processes together
  // would exceed the device's capacity or the host's limit; what dead processes held does not count.
  Status charge(int device, size_t bytes, size_t device_capacity, size_t host_limit);

  // Takes off what was charged.
  void release(int device, size_t bytes);

  Usage usage(int device);

  // A stream of `device` begins or ends to run tasks. Takes no lock.
  void running(int device, bool begins);
  // Of all living processes.
  BusyTime busy_time(int device);

  // The living processes that joined, this one included.
  std::vector<ProcessUsage> processes();

  // For the handler of SIGBUS: whether `address` lies in a ledger of this process whose file had been cut short, and can be used
  // again now.
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

  // With the table locked:
  Status take_entry();
  void fill_entry(int number);
  void reclaim_dead();
  bool is_alive(int entry) const;
  Status describe_full(int device, size_t bytes, size_t device_capacity, size_t host_limit) const;

  Status problem_;
  std::string path_;
  std::mutex repair_mutex_;
  int file_ = -1;                          // -1: an account of our own
  std::atomic<Table*> table_{nullptr};     // null in a child of fork()
  std::atomic<int> entry_{-1};             // read by workers, which hold no lock
  std::array<uint64_t, kDevices> held_{};  // what entry_ says, should the file lose it; changed with the table locked
};

}  // namespace softnpu
