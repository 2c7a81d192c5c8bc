#include "runtime/memory/ledger.h"

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
#include <thread>

#include "runtime/base/log.h"

namespace softnpu {
namespace {

constexpr uint64_t kMagic = 0x6c65646765723034;  // changes with the layout of Table, and so does the name of the file
constexpr const char* kFileName = "softnpu-ledger-4-";

// Bytes of the file that stand for something when locked; they lie behind its contents.
constexpr off_t kSetUpLock = off_t{1} << 30;
constexpr off_t kEntryLocks = kSetUpLock + 1;

// For locks that are held for microseconds: who holds one longer is stopped or gone.
constexpr std::chrono::milliseconds kPatience{800};

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

  void clear() {
    used = 0;
    device_bytes.fill(0);
    for (Running& one : running) std::atomic_ref(one).store(0, std::memory_order_relaxed);
  }
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

bool set_lock(int file, short type, off_t byte) {
  struct flock request = lock_request(type, byte);
  while (fcntl(file, F_OFD_SETLK, &request) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// False if another process keeps the lock: one that is stopped must not stop the others.
bool set_lock_within(int file, off_t byte, std::chrono::milliseconds span) {
  const auto end = std::chrono::steady_clock::now() + span;
  while (!set_lock(file, F_WRLCK, byte)) {
    if ((errno != EAGAIN && errno != EACCES) || std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Of a file that lost its end the beginning is of no use either.
bool empty(int file) { return ftruncate(file, 0) == 0; }

// What programs are called is their business; in a list with one line for each it must stay one word of one line.
void make_printable(char* name) {
  for (; *name != '\0'; ++name) {
    if (static_cast<unsigned char>(*name) < 0x20 || *name == 0x7F) *name = '?';
  }
}

// Those that repair_fault() knows: a handler of signals takes no lock.
std::atomic<Ledger*> g_mapped[4];

}  // namespace

struct Ledger::Table {
  uint64_t magic;  // written last
  pthread_mutex_t mutex;
  std::array<Entry, kProcesses> entries;
  // Sums over the entries.
  std::array<uint64_t, kDevices> device_bytes;
  uint64_t host_bytes;
  uint64_t end;  // the same as `magic`, and last

  bool set_up() {
    for (Entry& entry : entries) entry.clear();
    add_up();
    if (!make_mutex()) return false;
    end = kMagic;
    magic = kMagic;
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
    for (const Entry& entry : entries) {
      for (int device = 0; entry.used != 0 && device < kDevices; ++device) device_bytes[device] += entry.device_bytes[device];
    }
    host_bytes = 0;
    for (const uint64_t bytes : device_bytes) host_bytes += bytes;
  }
};

// Holds the table of a ledger. A process that died inside left the entries whole, but perhaps not their sums.
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
    // Another process took the lock by force, as this one was stopped for long: both may have changed the sums.
    acquire();
    table_.add_up();
    if (held_) pthread_mutex_unlock(&table_.mutex);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  void acquire() {
    int result = lock_within(kPatience);
    if (result == ETIMEDOUT) {
      ledger_.unlock_by_force();
      result = lock_within(kPatience);
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
  for (std::atomic<Ledger*>& entry : g_mapped) {
    Ledger* none = nullptr;
    if (file_ >= 0 && entry.compare_exchange_strong(none, this)) break;
  }
}

Ledger::~Ledger() {
  Registry& registry = Registry::instance();
  std::lock_guard registry_lock(registry.mutex);
  std::erase(registry.ledgers, this);
  for (std::atomic<Ledger*>& entry : g_mapped) {
    Ledger* self = this;
    entry.compare_exchange_strong(self, nullptr);
  }
  Table* table = table_.load(std::memory_order_relaxed);
  if (table == nullptr) return;
  if (file_ >= 0) {
    Lock lock(*this);
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
  Lock lock(*this);
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
  held_[device] += bytes;
  table->entries[entry_].device_bytes[device] += bytes;
  table->device_bytes[device] += bytes;
  table->host_bytes += bytes;
  return {};
}

void Ledger::release(int device, size_t bytes) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr || device < 0 || device >= kDevices) return;
  Lock lock(*this);
  uint64_t& own = table->entries[entry_].device_bytes[device];
  const uint64_t taken = std::min<uint64_t>(own, bytes);
  own -= taken;
  held_[device] -= std::min<uint64_t>(held_[device], bytes);
  table->device_bytes[device] -= taken;
  table->host_bytes -= taken;
}

Usage Ledger::usage(int device) {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr || device < 0 || device >= kDevices) return {};
  Lock lock(*this);
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
  Lock lock(*this);
  reclaim_dead();
  const std::chrono::microseconds time = now();
  std::chrono::microseconds total{0};
  for (Entry& entry : table->entries) {
    if (entry.used == 0) continue;
    const Running running = std::atomic_ref(entry.running[device]).load(std::memory_order_relaxed);
    total += busy_until(time, running);
  }
  total = std::max(total, std::chrono::microseconds(0));  // less, where the file was set up anew while tasks ran
  return {total, std::chrono::steady_clock::time_point(time)};
}

std::vector<ProcessUsage> Ledger::processes() {
  Table* table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return {};
  Lock lock(*this);
  reclaim_dead();
  std::vector<ProcessUsage> found;
  for (const Entry& entry : table->entries) {
    if (entry.used == 0) continue;
    ProcessUsage process;
    process.pid = entry.pid;
    process.name.assign(entry.name.data(), strnlen(entry.name.data(), entry.name.size()));
    make_printable(process.name.data());  // other versions of this library, and other programs, write there too
    process.start_time = entry.start_time;
    process.device_bytes.assign(entry.device_bytes.begin(), entry.device_bytes.end());
    found.push_back(std::move(process));
  }
  return found;
}

Status Ledger::join(const std::string& folder) {
  path_ = text(folder, "/", kFileName, geteuid());
  if (Status status = open_file(path_); !status.ok()) {
    if (file_ >= 0) close(file_);
    file_ = -1;
    return {status.code(), text("the ledger ", path_, " cannot be used (", status.message(),
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

  if (!set_lock_within(file_, kSetUpLock, kPatience)) return failure("another process keeps it locked");
  Status status = map_table();
  if (status.ok()) status = take_entry();
  set_lock(file_, F_UNLCK, kSetUpLock);
  if (status.ok()) return status;
  if (Table* table = table_.exchange(nullptr)) munmap(table, sizeof(Table));
  return status;
}

Status Ledger::map_table() {
  struct stat about = {};
  uint64_t magic = 0;
  const bool is_ours = pread(file_, &magic, sizeof magic, 0) == sizeof magic && magic == kMagic;
  if (is_ours && fstat(file_, &about) == 0 && about.st_size < off_t(sizeof(Table))) empty(file_);  // it was cut short
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

// The end is touched first: a file that was cut short then loses the rest, too (repair_fault()).
bool Ledger::is_whole() const {
  const volatile Table& table = *table_.load(std::memory_order_relaxed);
  return table.end == kMagic && table.magic == kMagic;
}

// Somebody cut the file short or emptied it. It stays mapped where it is.
void Ledger::set_up_again() {
  std::lock_guard guard(repair_mutex_);
  const auto report = [&](const auto&... why) { warn(text("the ledger ", path_, " was damaged ", why...)); };
  const bool is_joining = entry_ < 0;  // then this process holds the lock
  if (!is_joining && !set_lock_within(file_, kSetUpLock, kPatience)) return report("and another process keeps it locked");
  if (const int error = posix_fallocate(file_, 0, sizeof(Table)); error != 0) {
    report("and has no room: ", std::strerror(error));
  } else if (!is_whole()) {
    if (table_.load(std::memory_order_relaxed)->set_up()) report("and is set up anew: each process enters again what it holds");
  }
  if (!is_joining) set_lock(file_, F_UNLCK, kSetUpLock);
}

// The holder of the mutex is stopped, or the file was left as it is by a host that went down. Only one process does this.
void Ledger::unlock_by_force() {
  if (file_ < 0) return;
  std::lock_guard guard(repair_mutex_);
  const bool is_joining = entry_ < 0;  // then this process holds the lock
  if (!is_joining && !set_lock_within(file_, kSetUpLock, kPatience)) return;
  Table& table = *table_.load(std::memory_order_relaxed);
  const int result = pthread_mutex_trylock(&table.mutex);
  if (result == EBUSY && table.make_mutex()) {
    warn(text("the ledger ", path_, " was left locked by a process that is stopped or gone; it was unlocked"));
    table.add_up();
  } else if (result == 0 || result == EOWNERDEAD) {
    if (result == EOWNERDEAD) pthread_mutex_consistent(&table.mutex);
    pthread_mutex_unlock(&table.mutex);
  }
  if (!is_joining) set_lock(file_, F_UNLCK, kSetUpLock);
}

bool Ledger::repair_fault(uintptr_t address) {
  for (const std::atomic<Ledger*>& entry : g_mapped) {
    const Ledger* ledger = entry.load(std::memory_order_acquire);
    if (ledger == nullptr || ledger->file_ < 0) continue;
    if (address - reinterpret_cast<uintptr_t>(ledger->table_.load(std::memory_order_relaxed)) >= sizeof(Table)) continue;
    struct stat about = {};
    if (fstat(ledger->file_, &about) != 0) return false;
    if (about.st_size < off_t(sizeof(Table))) return empty(ledger->file_) && ftruncate(ledger->file_, sizeof(Table)) == 0;
    // Another process was faster; or the host has no room for the page, which does not end by trying.
    static std::atomic<int> tries{0};
    return tries.fetch_add(1, std::memory_order_relaxed) < 100;
  }
  return false;
}

Status Ledger::take_entry() {
  Table& table = *table_.load(std::memory_order_relaxed);
  Lock lock(*this);
  reclaim_dead();
  for (int entry = 0; entry < kProcesses; ++entry) {
    if (table.entries[entry].used != 0 || !set_lock(file_, F_WRLCK, kEntryLocks + entry)) continue;
    table.entries[entry].clear();
    fill_entry(entry);
    return {};
  }
  return {ACL_ERROR_RT_OVER_LIMIT, text("all of its ", kProcesses, " entries are taken")};
}

void Ledger::fill_entry(int number) {
  Entry& entry = table_.load(std::memory_order_relaxed)->entries[number];
  entry.pid = getpid();
  entry.start_time = std::time(nullptr);
  entry.name.fill('\0');
  std::strncpy(entry.name.data(), program_invocation_short_name, entry.name.size() - 1);
  make_printable(entry.name.data());
  entry.used = 1;
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
