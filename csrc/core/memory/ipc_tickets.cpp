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

constexpr uint32_t kWords = 1 << 17;
constexpr uint64_t kMagic = 0x4E50555752443031;  // "NPUWRD01"

struct Handle {
  uint64_t magic;
  uint64_t token;
  int32_t pid;
  int32_t file;
};

// A word is the generation of its ticket, then who has it: nobody yet, a process, or nobody any more.
using Word = uint64_t;
constexpr uint32_t kReleased = 0;
constexpr uint32_t kSent = UINT32_MAX;
constexpr Word make_word(uint32_t generation, uint32_t holder) { return uint64_t{generation} << 32 | holder; }
constexpr uint32_t generation_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr uint32_t low_half(uint64_t word) { return static_cast<uint32_t>(word); }

// One that has ended, and whose parent has not waited for it yet, is not.
bool is_alive(uint32_t pid) {
  std::ifstream file(c10::str("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
  const size_t name_end = line.rfind(')');  // the state is the word behind it
  return name_end == std::string::npos || line.find_first_of("ZX", name_end) != name_end + 2;
}

}  // namespace

struct SharedWords::Page {
  uint64_t magic;
  uint64_t token;
  std::array<std::atomic<Word>, kWords> words;  // sparse
};

SharedWords& SharedWords::own() {
  static SharedWords* const leaked = create();
  return *leaked;
}

SharedWords* SharedWords::create() {
  const int file = memfd_create("torch-npu-shared", MFD_CLOEXEC);
  TORCH_CHECK(file >= 0, "memory for sharing tensors cannot be made: ", std::strerror(errno));
  void* const memory =
      ftruncate(file, sizeof(Page)) == 0 ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  TORCH_CHECK(memory != MAP_FAILED, "memory for sharing tensors cannot be mapped: ", std::strerror(errno));
  auto* const page = static_cast<Page*>(memory);
  page->magic = kMagic;
  if (getrandom(&page->token, sizeof page->token, 0) != sizeof page->token) page->token = static_cast<uint64_t>(getpid());
  const Handle handle{kMagic, page->token, getpid(), file};
  return new SharedWords(page, file, std::string(reinterpret_cast<const char*>(&handle), sizeof handle));
}

std::shared_ptr<SharedWords> SharedWords::open(const std::string& handle) {
  static std::mutex mutex;
  static auto* const opened = new std::map<std::string, std::weak_ptr<SharedWords>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*opened, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = opened->find(handle); found != opened->end()) {
    if (auto words = found->second.lock()) return words;
  }
  Handle given{};
  TORCH_CHECK_VALUE(handle.size() == sizeof given, "the handle of what counts shared tensors is ", sizeof given,
                    " bytes, but got ", handle.size());
  std::memcpy(&given, handle.data(), sizeof given);
  TORCH_CHECK_VALUE(given.magic == kMagic, "the bytes are not a handle of what counts shared tensors");
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
  std::shared_ptr<SharedWords> words(new SharedWords(page, -1, handle));
  (*opened)[handle] = words;
  return words;
}

SharedWords::~SharedWords() {
  munmap(page_, sizeof(Page));
  if (file_ >= 0) ::close(file_);
}

SharedWords::Ticket SharedWords::take() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!unused_.empty() || used_ < kWords, "other processes have, or were sent and did not receive, ", kWords,
              " tensors on npu of this one; receive them, and let go of some");
  uint32_t index = used_;
  if (unused_.empty()) {
    ++used_;
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  std::atomic<Word>& word = page_->words[index];
  const uint32_t generation = generation_of(word.load(std::memory_order_relaxed)) + 1;
  word.store(make_word(generation, kSent), std::memory_order_release);
  return make_word(generation, index);
}

bool SharedWords::is_released(Ticket ticket, Receivers receivers) const {
  const uint32_t holder = low_half(page_->words[low_half(ticket)].load(std::memory_order_acquire));
  return holder == kReleased || (receivers == Receivers::kLivingAndDead && holder != kSent && !is_alive(holder));
}

bool SharedWords::is_held_here(Ticket ticket) const {
  const Word word = page_->words[low_half(ticket)].load(std::memory_order_relaxed);
  return low_half(word) == static_cast<uint32_t>(getpid());
}

void SharedWords::give_back(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(low_half(ticket));
}

void SharedWords::hold(Ticket ticket) {
  TORCH_CHECK_VALUE(low_half(ticket) < kWords, "the message that carries a tensor on npu is damaged");
  Word expected = make_word(generation_of(ticket), kSent);
  const Word held = make_word(generation_of(ticket), static_cast<uint32_t>(getpid()));
  TORCH_CHECK(page_->words[low_half(ticket)].compare_exchange_strong(expected, held, std::memory_order_acq_rel),
              "a tensor on npu that was sent once can be received once; send it again for each receiver");
}

void SharedWords::release(Ticket ticket) noexcept {
  if (low_half(ticket) >= kWords) return;
  std::atomic<Word>& word = page_->words[low_half(ticket)];
  for (const uint32_t holder : {static_cast<uint32_t>(getpid()), kSent}) {
    Word expected = make_word(generation_of(ticket), holder);
    if (word.compare_exchange_strong(expected, make_word(generation_of(ticket), kReleased), std::memory_order_acq_rel)) return;
  }
}

}  // namespace torch_npu
