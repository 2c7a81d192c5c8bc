#include "runtime/stream/ipc_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/base/other_process.h"

namespace softnpu {
namespace {

constexpr uint64_t kEventMagic = 0x4E50554556543032;  // "NPUEVT02"
constexpr size_t kEventPage = 4096;
constexpr std::chrono::nanoseconds kLookPause = std::chrono::milliseconds(50);

// The contents of the 64 bytes of aclrtIpcEventHandle.
struct Ticket64 {
  uint64_t magic;
  uint64_t token;
  int32_t pid;
  int32_t fd;
};
static_assert(sizeof(Ticket64) <= sizeof(aclrtIpcEventHandle));

Status ipc_event_failure(const char* what) { return {ACL_ERROR_RT_IPC_ERROR, text(what, ": ", std::strerror(errno))}; }

}  // namespace

Result<IpcEvent::Ref> IpcEvent::create() {
  const int fd = memfd_create("softnpu-event", MFD_CLOEXEC);
  if (fd < 0) return ipc_event_failure("memory for the shared event cannot be made");
  void* memory =
      ftruncate(fd, kEventPage) == 0 ? mmap(nullptr, kEventPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    Status status = ipc_event_failure("memory for the shared event cannot be mapped");
    ::close(fd);
    return status;
  }
  static_assert(sizeof(Page) <= kEventPage);
  auto* page = new (memory) Page{};
  page->magic = kEventMagic;
  if (getrandom(&page->token, sizeof page->token, 0) != sizeof page->token) page->token = uint64_t(getpid()) << 32 | uint32_t(fd);
  return Ref(new IpcEvent(page, fd));
}

Result<IpcEvent::Ref> IpcEvent::open(const aclrtIpcEventHandle& handle) {
  Ticket64 ticket;
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  if (ticket.magic != kEventMagic)
    return Status(ACL_ERROR_RT_PARAM_INVALID, "the bytes are not a handle made by aclrtIpcGetEventHandle");
  const std::string path = text("/proc/", ticket.pid, "/fd/", ticket.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return Status(ACL_ERROR_RT_IPC_ERROR, text("the event of process ", ticket.pid, " cannot be opened (", std::strerror(errno),
                                               "); that process must be alive, of the same user, and hold the event"));
  }
  struct stat info {};
  const bool has_size = fstat(fd, &info) == 0 && info.st_size == off_t(kEventPage);
  void* memory = has_size ? mmap(nullptr, kEventPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  ::close(fd);
  auto* page = static_cast<Page*>(memory);
  if (memory != MAP_FAILED && page->magic == kEventMagic && page->token == ticket.token) return Ref(new IpcEvent(page, -1));
  if (memory != MAP_FAILED) munmap(memory, kEventPage);
  return Status(ACL_ERROR_RT_IPC_ERROR, text("process ", ticket.pid, " no longer holds that event"));
}

IpcEvent::~IpcEvent() {
  munmap(page_, kEventPage);
  if (fd_ >= 0) ::close(fd_);
}

void IpcEvent::Release::operator()(IpcEvent* event) const {
  if (event->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete event;
}

Result<aclrtIpcEventHandle> IpcEvent::handle() const {
  if (fd_ < 0)
    return Status(ACL_ERROR_RT_PARAM_INVALID, "the event was opened from another process; only its creator hands out handles");
  const Ticket64 ticket{.magic = kEventMagic, .token = page_->token, .pid = getpid(), .fd = fd_};
  aclrtIpcEventHandle handle{};
  std::memcpy(handle.reserved, &ticket, sizeof ticket);
  return handle;
}

uint64_t IpcEvent::begin_record() {
  const ProcessId self = this_process();
  const uint64_t record = page_->recorded.fetch_add(1, std::memory_order_acq_rel) + 1;
  Recorder& recorder = page_->recorders[record % kRecorders];
  recorder.record.store(0, std::memory_order_relaxed);
  recorder.pid.store(self.pid, std::memory_order_relaxed);
  recorder.start_time.store(self.start_time, std::memory_order_relaxed);
  recorder.record.store(record, std::memory_order_release);
  return record;
}

bool IpcEvent::recorder_ended(uint64_t record) {
  if (lost_record_.load(std::memory_order_relaxed) == record) return !reached(record);
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  const int64_t next = next_look_.load(std::memory_order_relaxed);
  if (now < next) return false;
  next_look_.store(now + kLookPause.count(), std::memory_order_relaxed);
  const Recorder& recorder = page_->recorders[record % kRecorders];
  const ProcessId process{recorder.pid.load(std::memory_order_relaxed), recorder.start_time.load(std::memory_order_relaxed)};
  if (next == 0 || recorder.record.load(std::memory_order_acquire) != record || process.pid == getpid()) return false;
  if (is_alive(process) || reached(record)) return false;
  lost_record_.store(record, std::memory_order_relaxed);
  return true;
}

Status IpcEvent::check_recorder(uint64_t record) { return recorder_ended(record) ? loss_of(record) : Status(); }

Status IpcEvent::loss_of(uint64_t record) const {
  return {ACL_ERROR_RT_IPC_ERROR,
          text("process ", page_->recorders[record % kRecorders].pid.load(std::memory_order_relaxed),
               ", which recorded the event, ended before its stream reached the event; record the event again")};
}

void IpcEvent::finish_record(uint64_t record) {
  uint64_t done = page_->done.load(std::memory_order_relaxed);
  while (done < record && !page_->done.compare_exchange_weak(done, record, std::memory_order_acq_rel)) {
  }
}

}  // namespace softnpu
