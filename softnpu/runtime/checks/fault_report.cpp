#include "runtime/checks/fault_report.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "runtime/base/options.h"
#include "runtime/base/running_task.h"
#include "runtime/engine/arena.h"
#include "runtime/memory/heaps.h"
#include "runtime/memory/ledger.h"

// All functions except install_fault_report() run in a signal handler: they allocate no memory and take no lock.
namespace softnpu {
namespace {

struct sigaction g_previous_segv;
struct sigaction g_previous_bus;
const SoftnpuTaskKind* (*g_any_running_kind)() = nullptr;

struct sigaction& previous_action(int signal) {
  return signal == SIGBUS ? g_previous_bus : g_previous_segv;
}

// A line of text of limited length, on the stack.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const size_t count = std::min(text.size(), sizeof text_ - 1 - size_);  // one byte is for the line break
    std::memcpy(text_ + size_, text.data(), count);
    size_ += count;
    return *this;
  }
  Line& operator<<(const char* text) { return *this << std::string_view(text); }
  Line& operator<<(uint64_t number) { return digits(number, 10); }
  Line& operator<<(const void* address) { return (*this << "0x").digits(reinterpret_cast<uintptr_t>(address), 16); }

  void print() {
    text_[size_] = '\n';
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text_, size_ + 1);
  }

 private:
  Line& digits(uint64_t number, unsigned base) {
    char reversed[20];
    size_t count = 0;
    do {
      reversed[count++] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    std::reverse(reversed, reversed + count);
    return *this << std::string_view(reversed, count);
  }

  char text_[512];
  size_t size_ = 0;
};

struct Fault {
  int signal = 0;
  uintptr_t address = 0;  // 0 if unknown
  const char* verb = "used";
};

Fault fault_of(int signal, [[maybe_unused]] const siginfo_t& info, [[maybe_unused]] const ucontext_t& context) {
#ifdef __x86_64__
  // If another handler raised the signal again, siginfo does not describe the fault, but the saved registers do.
  constexpr greg_t kPageFault = 14;
  constexpr greg_t kWrite = 2;
  const greg_t* registers = context.uc_mcontext.gregs;
  if (registers[REG_TRAPNO] != kPageFault) return {.signal = signal};
  return {signal, static_cast<uintptr_t>(registers[REG_CR2]), registers[REG_ERR] & kWrite ? "wrote to" : "read"};
#else
  if (info.si_code <= 0) return {.signal = signal};
  return {.signal = signal, .address = reinterpret_cast<uintptr_t>(info.si_addr)};
#endif
}

// Appends a description of the memory at a device address and returns its state. `inside` tells whether the address lies in a
// live allocation.
MemoryState describe_place(Line& line, const void* address, bool* inside) {
  const Heaps::Owner owner = Heaps::find(address);
  *inside = false;
  if (owner.heap == nullptr) {
    line << ", which belongs to a device that was never used";
    return MemoryState::kNever;
  }
  const MemoryInfo info = owner.heap->inspect(address);
  const auto number = static_cast<uint64_t>(owner.number);
  if (info.state != MemoryState::kLive) {
    line << ", in memory of device " << number
         << (info.state == MemoryState::kFreed ? " that was freed" : " that was never allocated");
    return info.state;
  }
  const auto offset = static_cast<const std::byte*>(address) - info.allocation.base;
  const auto bytes = static_cast<ptrdiff_t>(info.allocation.bytes);
  *inside = offset >= 0 && offset < bytes;
  if (*inside) {
    line << ", offset " << uint64_t(offset) << " of";
  } else if (offset < 0) {
    line << ", " << uint64_t(-offset) << " bytes before";
  } else {
    line << ", " << uint64_t(offset - bytes) << " bytes past the end of";
  }
  line << " the allocation of " << uint64_t(bytes) << " bytes at " << static_cast<const void*>(info.allocation.base)
       << " on device " << number;
  return info.state;
}

// The name of the task of this thread; on a thread that a kernel started, the name of a task that any stream runs.
const char* guess_task() {
  if (const SoftnpuTaskKind* here = RunningTask::here(); here != nullptr) return here->name;
  const SoftnpuTaskKind* const running = g_any_running_kind();
  return running == nullptr ? "a kernel" : running->name;
}

void explain_host_access(Line& line, const Fault& fault, const void* address) {
  bool inside = false;
  line << "host code " << fault.verb << " device address " << address;
  describe_place(line, address, &inside);
  line << ": device memory is not the host's; copy it with tensor.cpu() or aclrtMemcpy";
}

void explain_kernel_access(Line& line, const Fault& fault, const void* address) {
  bool inside = false;
  line << guess_task() << " " << fault.verb << " device address " << address;
  const MemoryState state = describe_place(line, address, &inside);
  if (inside) {
    line << (fault.signal == SIGBUS ? ": the host has no memory left for it" : ": this process cannot use it any more");
  } else if (state == MemoryState::kFreed) {
    line << ": it was freed before the work that uses it was done; call record_stream() or synchronize before it goes";
  } else {
    line << ": a kernel must stay inside its tensors";
  }
}

void explain_task_elsewhere(Line& line, const Fault& fault, const SoftnpuTaskKind& kind) {
  const bool copies = std::string_view(kind.name).starts_with("aclrtMem");
  line << kind.name << " " << fault.verb << " address " << reinterpret_cast<const void*>(fault.address)
       << (copies ? ", which is not mapped or not accessible: keep host memory unchanged until its copy is done"
                  : ", which is not mapped or not accessible: that is an error of its kernel");
}

// False if the device did not cause the fault.
bool explain(Line& line, const Fault& fault) {
  if (fault.address == 0) return false;
  line << "softnpu: " << (fault.signal == SIGBUS ? "SIGBUS" : "SIGSEGV") << ": ";
  const Arena::Range range = Arena::device_range();
  const uintptr_t length = range.end - range.begin;
  const SoftnpuTaskKind* task = RunningTask::here();
  const bool is_host_code = task == nullptr || (task->flags & SOFTNPU_TASK_ON_WORKER);
  if (is_host_code && fault.address - range.begin < length) {
    explain_host_access(line, fault, reinterpret_cast<const void*>(fault.address));
    return true;
  }
  const uintptr_t device_address = fault.address - static_cast<uintptr_t>(range.kernel_offset);
  if (device_address - range.begin < length) {
    explain_kernel_access(line, fault, reinterpret_cast<const void*>(device_address));
    return true;
  }
  if (is_host_code) return false;
  explain_task_elsewhere(line, fault, *task);
  return true;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  struct sigaction& previous = previous_action(signal);
  const bool is_default = !(previous.sa_flags & SA_SIGINFO) && (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN);
  if (is_default || (previous.sa_flags & SA_RESETHAND)) {
    struct sigaction standard {};
    sigaction(signal, &standard, nullptr);
  }
  if (is_default) {
    if (info->si_code <= 0) raise(signal);  // returning would not repeat the fault
    return;
  }
  pthread_sigmask(SIG_BLOCK, &previous.sa_mask, nullptr);
  if (previous.sa_flags & SA_NODEFER) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  if (signal == SIGBUS && Ledger::repair_fault(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = saved;
    return;  // the access is repeated
  }
  {
    Line line;
    if (explain(line, fault_of(signal, *info, *static_cast<const ucontext_t*>(context)))) line.print();
  }
  pass_on(signal, info, context);
  errno = saved;
}

}  // namespace

void install_fault_report(const SoftnpuTaskKind* (*any_running_kind)()) {
  if (!options().fault_report) return;
  static const bool installed = [&] {
    g_any_running_kind = any_running_kind;
    static_cast<void>(any_running_kind());  // makes the objects that the handler reads
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &g_previous_segv) == 0 && sigaction(SIGBUS, &action, &g_previous_bus) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace softnpu
