#include "core/memory/ipc_tickets.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

namespace torch_npu {
namespace {

constexpr uint32_t kMostTickets = 1 << 17;
constexpr uint64_t kMagic = 0x4E50555752443031;  // "NPUWRD01"

struct Handle {
  uint64_t magic;
  uint64_t token;
  int32_t pid;
  int32_t file;
};

// Upper 32 bits: generation. Lower 32 bits: holder's PID, kSent or kReleased.
using Entry = uint64_t;
constexpr uint32_t kReleased = 0;
constexpr uint32_t kSent = UINT32_MAX;
// A ticket has the same upper half as its entry. Its lower half is the index of the entry.
constexpr uint64_t pack(uint32_t generation, uint32_t low) { return uint64_t{generation} << 32 | low; }
constexpr uint32_t generation_of(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
constexpr uint32_t low_half(uint64_t value) { return static_cast<uint32_t>(value); }

// A zombie is not alive.
bool is_alive(uint32_t pid) {
  std::ifstream file(c10::str("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
  const size_t name_end = line.rfind(')');  // the state follows the name: "PID (name) S"
  return name_end == std::string::npos || line.find_first_of("ZX", name_end) != name_end + 2;
}

}  // namespace

struct IpcTickets::Page {
  uint64_t magic;
  uint64_t token;
  std::array<std::atomic<Entry>, kMostTickets> entries;  // unused pages of the file take no memory
};

IpcTickets& IpcTickets::own() {
  static IpcTickets* const leaked = create();
  return *leaked;
}

IpcTickets* IpcTickets::create() {
  const int file = memfd_create("torch-npu-shared", MFD_CLOEXEC);
  TORCH_CHECK(file >= 0, "the shared memory for sending tensors on npu cannot be created: ", std::strerror(errno));
  void* const memory =
      ftruncate(file, sizeof(Page)) == 0 ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  TORCH_CHECK(memory != MAP_FAILED, "the shared memory for sending tensors on npu cannot be mapped: ", std::strerror(errno));
  auto* const page = static_cast<Page*>(memory);
  page->magic = kMagic;
  if (getrandom(&page->token, sizeof page->token, 0) != sizeof page->token) page->token = static_cast<uint64_t>(getpid());
  const Handle handle{kMagic, page->token, getpid(), file};
  return new IpcTickets(page, file, std::string(reinterpret_cast<const char*>(&handle), sizeof handle));
}

std::shared_ptr<IpcTickets> IpcTickets::open(const std::string& handle) {
  static std::mutex mutex;
  static auto* const opened = new std::map<std::string, std::weak_ptr<IpcTickets>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*opened, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = opened->find(handle); found != opened->end()) {
    if (auto tickets = found->second.lock()) return tickets;
  }
  Handle given{};
  TORCH_CHECK_VALUE(handle.size() == sizeof given, "the ticket handle in the message that carries a tensor on npu must have ",
                    sizeof given, " bytes, but has ", handle.size());
  std::memcpy(&given, handle.data(), sizeof given);
  TORCH_CHECK_VALUE(given.magic == kMagic, "the message that carries a tensor on npu contains no valid ticket handle");
  const std::string path = c10::str("/proc/", given.pid, "/fd/", given.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  TORCH_CHECK(file >= 0, "the process ", given.pid, " that sent a tensor on npu cannot be reached (", std::strerror(errno),
              "): it must be alive, and of the same user, when the tensor is received; let it wait until then");
  struct stat info {};
  const bool has_size = fstat(file, &info) == 0 && info.st_size == static_cast<off_t>(sizeof(Page));
  void* const memory = has_size ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  auto* const page = static_cast<Page*>(memory);
  const bool is_meant = memory != MAP_FAILED && page->magic == kMagic && page->token == given.token;
  if (!is_meant && memory != MAP_FAILED) munmap(memory, sizeof(Page));
  TORCH_CHECK(is_meant, "the process ", given.pid, " that sent a tensor on npu has ended; it must be alive when the tensor is ",
              "received");
  std::shared_ptr<IpcTickets> tickets(new IpcTickets(page, -1, handle));
  (*opened)[handle] = tickets;
  return tickets;
}

IpcTickets::~IpcTickets() {
  munmap(page_, sizeof(Page));
  if (file_ >= 0) ::close(file_);
}

IpcTickets::Ticket IpcTickets::take() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!unused_.empty() || used_ < kMostTickets, "this process has sent ", kMostTickets,
              " tensors on npu that receivers still use or have not received; receive them, and free some");
  uint32_t index = used_;
  if (unused_.empty()) {
    ++used_;
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  std::atomic<Entry>& entry = page_->entries[index];
  const uint32_t generation = generation_of(entry.load(std::memory_order_relaxed)) + 1;
  entry.store(pack(generation, kSent), std::memory_order_release);
  return pack(generation, index);
}

bool IpcTickets::is_released(Ticket ticket, Receivers receivers) const {
  const uint32_t holder = low_half(page_->entries[low_half(ticket)].load(std::memory_order_acquire));
  return holder == kReleased || (receivers == Receivers::kLivingAndDead && holder != kSent && !is_alive(holder));
}

bool IpcTickets::is_held_here(Ticket ticket) const {
  const Entry entry = page_->entries[low_half(ticket)].load(std::memory_order_relaxed);
  return low_half(entry) == static_cast<uint32_t>(getpid());
}

void IpcTickets::give_back(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(low_half(ticket));
}

void IpcTickets::hold(Ticket ticket) {
  TORCH_CHECK_VALUE(low_half(ticket) < kMostTickets, "the message that carries a tensor on npu is damaged");
  Entry expected = pack(generation_of(ticket), kSent);
  const Entry held = pack(generation_of(ticket), static_cast<uint32_t>(getpid()));
  TORCH_CHECK(page_->entries[low_half(ticket)].compare_exchange_strong(expected, held, std::memory_order_acq_rel),
              "a tensor on npu that was sent once can be received once; send it again for each receiver");
}

void IpcTickets::release(Ticket ticket) noexcept {
  if (low_half(ticket) >= kMostTickets) return;
  std::atomic<Entry>& entry = page_->entries[low_half(ticket)];
  for (const uint32_t holder : {static_cast<uint32_t>(getpid()), kSent}) {
    Entry expected = pack(generation_of(ticket), holder);
    if (entry.compare_exchange_strong(expected, pack(generation_of(ticket), kReleased), std::memory_order_acq_rel)) return;
  }
}

}  // namespace torch_npu
