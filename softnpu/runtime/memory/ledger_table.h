// The contents of the ledger's file, and the lock around them. Private to ledger.cpp and ledger_file.cpp.
//
//   Lock lock(*this);                                           // in a member of Ledger
//   table->entries[entry_].device_bytes[device] += bytes;
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "runtime/memory/ledger.h"

namespace softnpu {

constexpr uint64_t kLedgerMagic = 0x6c65646765723034;  // changes with the layout of Table, as does the name of the file

// Processes hold these locks for microseconds. One that holds a lock for longer than this was stopped or has ended.
constexpr std::chrono::milliseconds kLedgerPatience{800};

// Busy time of the streams of a device, in one word so that it changes atomically. The upper bits count the streams that run
// tasks now (in units of kOneStream). The lower bits are a sum of microseconds: a stream that begins subtracts the time of the
// clock, a stream that ends adds it. At time t the streams have run for sum + t * streams.
using BusySum = int64_t;
constexpr BusySum kOneStream = int64_t{1} << 54;

struct LedgerEntry {
  int32_t used;
  int32_t pid;
  int64_t start_time;
  std::array<char, 48> name;
  std::array<uint64_t, Ledger::kDevices> device_bytes;
  std::array<BusySum, Ledger::kDevices> running;  // changed without holding the mutex

  void clear() {
    used = 0;
    device_bytes.fill(0);
    for (BusySum& one : running) std::atomic_ref(one).store(0, std::memory_order_relaxed);
  }
};

struct Ledger::Table {
  uint64_t magic;  // written last
  pthread_mutex_t mutex;
  std::array<LedgerEntry, kProcesses> entries;
  // Sums over all entries.
  std::array<uint64_t, kDevices> device_bytes;
  uint64_t host_bytes;
  uint64_t end;  // equal to `magic`; the last word of the file

  bool set_up() {
    for (LedgerEntry& entry : entries) entry.clear();
    add_up();
    if (!make_mutex()) return false;
    end = kLedgerMagic;
    magic = kLedgerMagic;
    return true;
  }

  bool make_mutex() {
    std::memset(&mutex, 0, sizeof mutex);
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) return false;
    const bool made = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
                      pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
                      pthread_mutex_init(&mutex, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    return made;
  }

  void add_up() {
    device_bytes.fill(0);
    for (const LedgerEntry& entry : entries) {
      for (int device = 0; entry.used != 0 && device < kDevices; ++device) device_bytes[device] += entry.device_bytes[device];
    }
    host_bytes = 0;
    for (const uint64_t bytes : device_bytes) host_bytes += bytes;
  }
};

// Holds the mutex of a ledger's table. Where the previous holder died with the mutex, the entries are valid and the sums are
// computed again.
class Ledger::Lock {
 public:
  explicit Lock(Ledger& ledger) : ledger_(ledger), table_(*ledger.table_.load(std::memory_order_relaxed)) {
    if (!ledger_.is_whole()) ledger_.set_up_again();
    acquire();
    if (ledger_.entry_ < 0 || table_.entries[ledger_.entry_].used != 0) return;
    ledger_.fill_entry(ledger_.entry_);
    table_.entries[ledger_.entry_].device_bytes = ledger_.held_;
    table_.add_up();
  }
  ~Lock() {
    if (!held_ || pthread_mutex_unlock(&table_.mutex) == 0) return;
    // Another process replaced the mutex because this one was stopped for too long. Both may have changed the sums.
    acquire();
    table_.add_up();
    if (held_) pthread_mutex_unlock(&table_.mutex);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  void acquire() {
    int result = lock_within(kLedgerPatience);
    if (result == ETIMEDOUT) {
      ledger_.unlock_by_force();
      result = lock_within(kLedgerPatience);
    }
    held_ = result == 0 || result == EOWNERDEAD;
    if (result != EOWNERDEAD) return;
    pthread_mutex_consistent(&table_.mutex);
    table_.add_up();
  }
  int lock_within(std::chrono::milliseconds span) {
    const int result = pthread_mutex_trylock(&table_.mutex);
    if (result != EBUSY) return result;
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += long(std::chrono::nanoseconds(span).count());
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    return pthread_mutex_timedlock(&table_.mutex, &until);
  }

  Ledger& ledger_;
  Table& table_;
  bool held_ = false;
};

// Replaces control characters: the name is one word of one line in the lists that show it.
inline void make_printable(char* name) {
  for (; *name != '\0'; ++name) {
    if (static_cast<unsigned char>(*name) < 0x20 || *name == 0x7F) *name = '?';
  }
}

}  // namespace softnpu
