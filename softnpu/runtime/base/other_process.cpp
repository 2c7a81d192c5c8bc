#include "runtime/base/other_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softnpu {
namespace {

struct Stat {
  bool exists = true;
  char state = '?';
  uint64_t start_time = 0;
};

// The name of the program, in parentheses, may contain parentheses and spaces. So the fields are read from after the last ')'.
Stat read_stat(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", int(pid));
  Stat stat;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    stat.exists = errno != ENOENT && errno != ESRCH;
    return stat;
  }
  char text[1024];
  const ssize_t length = read(file, text, sizeof text - 1);
  stat.exists = length > 0 || errno != ESRCH;
  close(file);
  if (length <= 0) return stat;
  text[length] = '\0';
  const char* field = std::strrchr(text, ')');
  if (field == nullptr || field[1] == '\0') return stat;
  field += 2;  // field 3, the state
  stat.state = *field;
  constexpr int kStartTime = 22;
  for (int number = 3; number < kStartTime && field != nullptr; ++number) {
    field = std::strchr(field, ' ');
    if (field != nullptr) ++field;
  }
  if (field != nullptr) stat.start_time = std::strtoull(field, nullptr, 10);
  return stat;
}

}  // namespace

ProcessId this_process() {
  static std::atomic<uint64_t> start_time{0};
  static std::atomic<pid_t> known{0};  // the process that start_time belongs to; a child of fork() has another one
  const pid_t pid = getpid();
  if (known.load(std::memory_order_acquire) != pid) {
    start_time.store(read_stat(pid).start_time, std::memory_order_relaxed);
    known.store(pid, std::memory_order_release);
  }
  return {pid, start_time.load(std::memory_order_relaxed)};
}

bool is_alive(const ProcessId& process) {
  const Stat stat = read_stat(process.pid);
  if (!stat.exists || stat.state == 'Z' || stat.state == 'X') return false;
  return stat.start_time == 0 || process.start_time == 0 || stat.start_time == process.start_time;
}

}  // namespace softnpu
