#include "runtime/ledger.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>

namespace softnpu {
namespace {

constexpr uint64_t kMagic = 0x6c65646765723033;  // changes with the layout of Table, and so does the name of the file
constexpr const char* kFileName = "softnpu-ledger-3-";

// Bytes of the file that stand for something when locked; they lie behind its contents.
constexpr off_t kSetUpLock = off_t{1} << 30;
constexpr off_t kEntryLocks = kSetUpLock + 1;

// Streams that run tasks now, times kStream, and the microseconds for which streams did, less the time of the clock at which each
// of those that run now began: at any time t they have run for sum + t * streams together. One word, so that nobody sees half of
// a change.
using Running = int64_t;
constexpr Running kStream = int64_t{1} << 54;

struct Entry {
  int32_t used;
  int32_t pid;
  int64_t start_time;
  std::array<char, 48> name;
  std::array<uint64_t, Ledger::kDevices> device_bytes;
  std::array<Running, Ledger::kDevices> running;  // changed without the mutex
};

// Of a clock that all processes of the host share.
std::chrono::microseconds now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

std::chrono::microseconds busy_until(std::chrono::microseconds time, Running running) {
  const int64_t streams = (running + kStream / 2) >> 54;  // the sum may be negative
  return std::chrono::microseconds(running - streams * kStream) + time * streams;
}

// A lock of the open file, not of the process: it ends with the last descriptor, and closing another one does not end it.
struct flock lock_request(short type, off_t byte) {
  struct flock request = {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  request.l_start = byte;
  request.l_len = 1;
  return request;
}

bool set_lock(int file, int command, short type, off_t byte) {
  struct flock request = lock_request(type, byte);
  while (fcntl(file, command, &request) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

struct Ledger::Table {
  uint64_t magic;  // written last
  pthread_mutex_t mutex;
  std::array<Entry, kProcesses> entries;
  // Sums over the entries.
  std::array<uint64_t, kDevices> device_bytes;
  uint64_t host_bytes;

  bool set_up() {
    std::memset(static_cast<void*>(this), 0, sizeof(*this));
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) return false;
    const bool made = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
                      pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
                      pthread_mutex_init(&mutex, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    if (made) magic = kMagic;
    return made;
  }

  void add_up() {
    device_bytes.fill(0);
    for (const Entry& entry : entries) {
      for (int device = 0; entry.used != 0 && device < kDevices; ++device) device_bytes[device] += entry.device_bytes[device];
    }
    host_bytes = 0;
    for (const uint64_t bytes : device_bytes) host_bytes += bytes;
  }
};

// Holds the table. A process that died inside left the entries whole, but perhaps not their sums.
class Ledger::Lock {
 public:
  explicit Lock(Table& table) : table_(table) {
    const int result = pthread_mutex_lock(&table_.mutex);
    held_ = result == 0 || result == EOWNERDEAD;
    if (result != EOWNERDEAD) return;
    pthread_mutex_consistent(&table_.mutex);
    table_.add_up();
  }
  ~Lock() {
    if (held_) pthread_mutex_unlock(&table_.mutex);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Table& table_;
  bool held_ = false;
};

// The ledgers of this process, so that a child can leave them. The mutex is held across fork(): no child sees one half-made.
struct Ledger::Registry {
  static Registry& instance() {
    static Registry* const leaked = new Registry;
    return *leaked;
  }

  std::mutex mutex;
  std::vector<Ledger*> ledgers;

 private:
  Registry() {
    const auto leave = [] {
      for (Ledger* ledger : instance().ledgers) ledger->leave_after_fork();
      instance().mutex.unlock();
    };
    pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); }, leave);
  }
};

Ledger::Ledger(const std::string& folder) {
  Registry& registry = Registry::instance();
  std::lock_guard lock(registry.mutex);
  problem_ = join(folder);
  if (!problem_.ok()) keep_own_account();
  registry.ledgers.push_back(this);
}

Ledger::~Ledger() {
  Registry& registry = Registry::instance();
  std::lock_guard registry_lock(registry.mutex);
  std::erase(registry.ledgers, this);
  Table* table = table_.load(std::memory_order_relaxed);
  if (table == nullptr) return;
  if (file_ >= 0) {
    Lock lock(*table);
    table->entries[entry_] = {};
    table->add_up();
  }
  munmap(table, sizeof(Table));
  if (file_ >= 0) close(file_);
}

Status Ledger::charge(int device, size_t bytes, size_t device_capacity, size_t host_limit) {
  if (device < 0 || device >= kDevices) return {ACL_ERROR_RT_INVALID_DEVICEID, text("there is no device ", device)};
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {ACL_ERROR_RT_MEMORY_ALLOCATION, "a child of fork() cannot use the device; start it with spawn"};
  Lock lock(*table);
  const auto fits = [&] {
    const uint64_t on_device = table->device_bytes[device];
    const uint64_t on_host = table->host_bytes;
    return on_device <= device_capacity && bytes <= device_capacity - on_device && on_host <= host_limit &&
           bytes <= host_limit - on_host;
  };
  if (!fits()) {
    reclaim_dead();
    if (!fits()) return describe_full(device, bytes, device_capacity, host_limit);
  }
  table->entries[entry_].device_bytes[device] += bytes;
  table->device_bytes[device] += bytes;
  table->host_bytes += bytes;
  return {};
}

void Ledger::release(int device, size_t bytes) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr || device < 0 || device >= kDevices) return;
  Lock lock(*table);
  uint64_t& own = table->entries[entry_].device_bytes[device];
  const uint64_t taken = std::min<uint64_t>(own, bytes);
  own -= taken;
  table->device_bytes[device] -= taken;
  table->host_bytes -= taken;
}

Usage Ledger::usage(int device) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr || device < 0 || device >= kDevices) return {};
  Lock lock(*table);
  reclaim_dead();
  return {table->entries[entry_].device_bytes[device], table->device_bytes[device], table->host_bytes};
}

void Ledger::running(int device, bool begins) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return;
  const Running change = kStream - now().count();
  std::atomic_ref(table->entries[entry_].running[device]).fetch_add(begins ? change : -change, std::memory_order_relaxed);
}

BusyTime Ledger::busy_time(int device) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {};
  Lock lock(*table);
  reclaim_dead();
  const std::chrono::microseconds time = now();
  std::chrono::microseconds total{0};
  for (Entry& entry : table->entries) {
    if (entry.used == 0) continue;
    const Running running = std::atomic_ref(entry.running[device]).load(std::memory_order_relaxed);
    total += busy_until(time, running);
  }
  return {total, std::chrono::steady_clock::time_point(time)};
}

std::vector<ProcessUsage> Ledger::processes() {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {};
  Lock lock(*table);
  reclaim_dead();
  std::vector<ProcessUsage> found;
  for (const Entry& entry : table->entries) {
    if (entry.used == 0) continue;
    ProcessUsage process;
    process.pid = entry.pid;
    process.name.assign(entry.name.data(), strnlen(entry.name.data(), entry.name.size()));
    process.start_time = entry.start_time;
    process.device_bytes.assign(entry.device_bytes.begin(), entry.device_bytes.end());
    found.push_back(std::move(process));
  }
  return found;
}

Status Ledger::join(const std::string& folder) {
  const std::string path = text(folder, "/", kFileName, geteuid());
  if (Status status = open_file(path); !status.ok()) {
    if (file_ >= 0) close(file_);
    file_ = -1;
    return {status.code(), text("the ledger ", path, " cannot be used (", status.message(),
                                "): this process does not see what others hold, nor they what it holds")};
  }
  return {};
}

Status Ledger::open_file(const std::string& path) {
  const auto failure = [](const char* what) { return Status(ACL_ERROR_RT_FILE_OPEN, text(what, ": ", std::strerror(errno))); };
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) return failure("it cannot be opened");
  struct stat about = {};
  if (fstat(file_, &about) != 0) return failure("it cannot be examined");
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0 || about.st_nlink != 1) {
    return {ACL_ERROR_RT_NO_PERMISSION, "it is not a plain file that belongs to this user alone"};
  }

  if (!set_lock(file_, F_OFD_SETLKW, F_WRLCK, kSetUpLock)) return failure("it cannot be locked");
  Status status = map_table();
  if (status.ok()) status = take_entry();
  set_lock(file_, F_OFD_SETLK, F_UNLCK, kSetUpLock);
  if (status.ok()) return status;
  if (Table* table = table_.exchange(nullptr)) munmap(table, sizeof(Table));
  return status;
}

Status Ledger::map_table() {
  // Reserved now: a full /dev/shm must be a failure here, not a fault later.
  if (const int error = posix_fallocate(file_, 0, sizeof(Table)); error != 0) {
    return {ACL_ERROR_RT_FILE_WRITE, text("it has no room: ", std::strerror(error))};
  }
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return {ACL_ERROR_RT_FILE_OPEN, text("it cannot be mapped: ", std::strerror(errno))};
  auto* table = static_cast<Table*>(memory);
  table_.store(table, std::memory_order_release);
  if (table->magic == kMagic) return {};
  if (table->magic != 0) return {ACL_ERROR_RT_FILE_OPEN, "it holds something else; remove it"};
  if (!table->set_up()) return {ACL_ERROR_RT_FILE_OPEN, "its mutex cannot be made"};
  return {};
}

Status Ledger::take_entry() {
  Table& table = *table_.load(std::memory_order_relaxed);
  Lock lock(table);
  reclaim_dead();
  for (int entry = 0; entry < kProcesses; ++entry) {
    if (table.entries[entry].used != 0 || !set_lock(file_, F_OFD_SETLK, F_WRLCK, kEntryLocks + entry)) continue;
    fill_entry(entry);
    return {};
  }
  return {ACL_ERROR_RT_OVER_LIMIT, text("all of its ", kProcesses, " entries are taken")};
}

void Ledger::fill_entry(int number) {
  Entry entry = {};
  entry.used = 1;
  entry.pid = getpid();
  entry.start_time = std::time(nullptr);
  std::strncpy(entry.name.data(), program_invocation_short_name, entry.name.size() - 1);
  table_.load(std::memory_order_relaxed)->entries[number] = entry;
  entry_ = number;
}

Status Ledger::describe_full(int device, size_t bytes, size_t device_capacity, size_t host_limit) const {
  const Table& table = *table_.load(std::memory_order_relaxed);
  const auto full = [&](const std::string& what, uint64_t used, uint64_t limit, uint64_t own) {
    return Status(ACL_ERROR_RT_MEMORY_ALLOCATION,
                  text(what, " has ", limit - std::min(limit, used), " of ", limit, " bytes free and ", bytes,
                       " are needed; this process holds ", own, ", others hold ", used - own));
  };
  const auto& own = table.entries[entry_].device_bytes;
  const uint64_t on_device = table.device_bytes[device];
  if (on_device > device_capacity || bytes > device_capacity - on_device) {
    return full(text("device ", device), on_device, device_capacity, own[device]);
  }
  uint64_t own_total = 0;
  for (const uint64_t device_bytes : own) own_total += device_bytes;
  return full("the host, for all devices together,", table.host_bytes, host_limit, own_total);
}

void Ledger::keep_own_account() {
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  auto* table = static_cast<Table*>(memory);
  table->set_up();
  table_.store(table, std::memory_order_release);
  fill_entry(0);
}

void Ledger::reclaim_dead() {
  Table& table = *table_.load(std::memory_order_relaxed);
  bool changed = false;
  for (int entry = 0; entry < kProcesses; ++entry) {
    if (table.entries[entry].used == 0 || entry == entry_ || is_alive(entry)) continue;
    table.entries[entry] = {};
    changed = true;
  }
  if (changed) table.add_up();
}

bool Ledger::is_alive(int entry) const {
  if (file_ < 0) return true;
  struct flock request = lock_request(F_WRLCK, kEntryLocks + entry);
  return fcntl(file_, F_OFD_GETLK, &request) != 0 || request.l_type != F_UNLCK;
}

void Ledger::leave_after_fork() {
  Table* table = table_.exchange(nullptr);
  if (table != nullptr) munmap(table, sizeof(Table));
  if (file_ >= 0) close(file_);
  file_ = -1;
}

}  // namespace softnpu
