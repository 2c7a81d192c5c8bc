#include "runtime/ipc_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softnpu {
namespace {

constexpr uint64_t kMagic = 0x4E50554556543031;  // "NPUEVT01"
constexpr size_t kPageSize = 4096;

// What travels in the 64 bytes of aclrtIpcEventHandle.
struct Ticket64 {
  uint64_t magic;
  uint64_t token;
  int32_t pid;
  int32_t fd;
};
static_assert(sizeof(Ticket64) <= sizeof(aclrtIpcEventHandle));

Status system_failure(const char* what) { return {ACL_ERROR_RT_IPC_ERROR, text(what, ": ", std::strerror(errno))}; }

}  // namespace

Result<IpcEvent::Ref> IpcEvent::create() {
  const int fd = memfd_create("softnpu-event", MFD_CLOEXEC);
  if (fd < 0) return system_failure("memory for the shared event cannot be made");
  void* memory = ftruncate(fd, kPageSize) == 0 ? mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    Status status = system_failure("memory for the shared event cannot be mapped");
    ::close(fd);
    return status;
  }
  auto* page = new (memory) Page{.magic = kMagic, .token = 0, .recorded = 0, .done = 0};
  if (getrandom(&page->token, sizeof page->token, 0) != sizeof page->token) page->token = uint64_t(getpid()) << 32 | uint32_t(fd);
  return Ref(new IpcEvent(page, fd));
}

Result<IpcEvent::Ref> IpcEvent::open(const aclrtIpcEventHandle& handle) {
  Ticket64 ticket;
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  if (ticket.magic != kMagic)
    return Status(ACL_ERROR_RT_PARAM_INVALID, "the bytes are not a handle made by aclrtIpcGetEventHandle");
  const std::string path = text("/proc/", ticket.pid, "/fd/", ticket.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return Status(ACL_ERROR_RT_IPC_ERROR, text("the event of process ", ticket.pid, " cannot be opened (", std::strerror(errno),
                                               "); that process must be alive, of the same user, and hold the event"));
  }
  struct stat info {};
  const bool has_size = fstat(fd, &info) == 0 && info.st_size == off_t(kPageSize);
  void* memory = has_size ? mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  ::close(fd);
  auto* page = static_cast<Page*>(memory);
  if (memory != MAP_FAILED && page->magic == kMagic && page->token == ticket.token) return Ref(new IpcEvent(page, -1));
  if (memory != MAP_FAILED) munmap(memory, kPageSize);
  return Status(ACL_ERROR_RT_IPC_ERROR, text("process ", ticket.pid, " no longer holds that event"));
}

IpcEvent::~IpcEvent() {
  munmap(page_, kPageSize);
  if (fd_ >= 0) ::close(fd_);
}

void IpcEvent::Release::operator()(IpcEvent* event) const {
  if (event->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete event;
}

Result<aclrtIpcEventHandle> IpcEvent::handle() const {
  if (fd_ < 0)
    return Status(ACL_ERROR_RT_PARAM_INVALID, "the event was opened from another process; only its creator hands out handles");
  const Ticket64 ticket{.magic = kMagic, .token = page_->token, .pid = getpid(), .fd = fd_};
  aclrtIpcEventHandle handle{};
  std::memcpy(handle.reserved, &ticket, sizeof ticket);
  return handle;
}

void IpcEvent::finish_record(uint64_t record) {
  uint64_t done = page_->done.load(std::memory_order_relaxed);
  while (done < record && !page_->done.compare_exchange_weak(done, record, std::memory_order_acq_rel)) {
  }
}

}  // namespace softnpu
