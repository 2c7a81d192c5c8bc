// The file of the ledger: opening, locking, repairing and leaving it.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/memory/ledger_table.h"

namespace softnpu {
namespace {

constexpr const char* kFileName = "softnpu-ledger-4-";

// File locks on single bytes, after the end of the contents: one for setting up the file, and one per entry.
constexpr off_t kSetUpLock = off_t{1} << 30;
constexpr off_t kEntryLocks = kSetUpLock + 1;

// Requests an open file description lock: it ends with the last descriptor of that description, and closing another descriptor
// of the file does not end it.
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

// False if another process holds the lock for longer than `span`, for example because it is stopped.
bool set_lock_within(int file, off_t byte, std::chrono::milliseconds span) {
  const auto end = std::chrono::steady_clock::now() + span;
  while (!set_lock(file, F_WRLCK, byte)) {
    if ((errno != EAGAIN && errno != EACCES) || std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A truncated file is emptied, because its first part alone is not valid.
bool empty(int file) { return ftruncate(file, 0) == 0; }

// The ledgers for repair_fault(), which runs in a signal handler and takes no lock.
std::atomic<Ledger*> g_mapped[4];

}  // namespace

// The ledgers of this process, so that a child of fork() can close them. The mutex is held across fork(), so that a child never
// sees an incomplete ledger.
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

  if (!set_lock_within(file_, kSetUpLock, kLedgerPatience)) return failure("another process keeps it locked");
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
  const bool is_ours = pread(file_, &magic, sizeof magic, 0) == sizeof magic && magic == kLedgerMagic;
  if (is_ours && fstat(file_, &about) == 0 && about.st_size < off_t(sizeof(Table))) empty(file_);  // it was truncated
  // Allocates the pages now, so that a full /dev/shm is an error here and not a SIGBUS later.
  if (const int error = posix_fallocate(file_, 0, sizeof(Table)); error != 0) {
    return {ACL_ERROR_RT_FILE_WRITE, text("it has no room: ", std::strerror(error))};
  }
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return {ACL_ERROR_RT_FILE_OPEN, text("it cannot be mapped: ", std::strerror(errno))};
  auto* table = static_cast<Table*>(memory);
  table_.store(table, std::memory_order_release);
  if (table->magic == kLedgerMagic) return {};
  if (table->magic != 0) return {ACL_ERROR_RT_FILE_OPEN, "it holds something else; remove it"};
  if (!table->set_up()) return {ACL_ERROR_RT_FILE_OPEN, "its mutex cannot be made"};
  return {};
}

// Reads the end first: if the file was truncated, that faults, and repair_fault() clears all of it.
bool Ledger::is_whole() const {
  const volatile Table& table = *table_.load(std::memory_order_relaxed);
  return table.end == kLedgerMagic && table.magic == kLedgerMagic;
}

// After another program truncated or emptied the file. The mapping stays at its address.
void Ledger::set_up_again() {
  std::lock_guard guard(repair_mutex_);
  const auto report = [&](const auto&... why) { warn(text("the ledger ", path_, " was damaged ", why...)); };
  const bool is_joining = entry_ < 0;  // then this process holds the lock already
  if (!is_joining && !set_lock_within(file_, kSetUpLock, kLedgerPatience)) return report("and another process keeps it locked");
  if (const int error = posix_fallocate(file_, 0, sizeof(Table)); error != 0) {
    report("and has no room: ", std::strerror(error));
  } else if (!is_whole()) {
    if (table_.load(std::memory_order_relaxed)->set_up()) report("and is set up anew: each process enters again what it holds");
  }
  if (!is_joining) set_lock(file_, F_UNLCK, kSetUpLock);
}

// The holder of the mutex is stopped, or the host went down while it was held. The lock of the file makes sure that one process
// at a time replaces the mutex.
void Ledger::unlock_by_force() {
  if (file_ < 0) return;
  std::lock_guard guard(repair_mutex_);
  const bool is_joining = entry_ < 0;  // then this process holds the lock already
  if (!is_joining && !set_lock_within(file_, kSetUpLock, kLedgerPatience)) return;
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
    // Either another process has repaired the file, or the host has no memory for the page. The limit ends the second case.
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
  LedgerEntry& entry = table_.load(std::memory_order_relaxed)->entries[number];
  entry.pid = getpid();
  entry.start_time = std::time(nullptr);
  entry.name.fill('\0');
  std::strncpy(entry.name.data(), program_invocation_short_name, entry.name.size() - 1);
  make_printable(entry.name.data());
  entry.used = 1;
  entry_ = number;
}

void Ledger::keep_own_account() {
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  auto* table = static_cast<Table*>(memory);
  table->set_up();
  table_.store(table, std::memory_order_release);
  fill_entry(0);
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

Ledger& ledger() {
  static auto* instance = new Ledger(options().ledger_dir);
  return *instance;
}

}  // namespace softnpu
