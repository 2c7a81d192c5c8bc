#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

namespace softnpu {
namespace internal {

constinit std::atomic<LogLevel> log_threshold = LogLevel::kDebug;

bool log_enabled_by_options(LogLevel level) {
  const LogLevel least = options().log_level;
  log_threshold.store(least, std::memory_order_relaxed);
  return level >= least && level < LogLevel::kNone;
}

}  // namespace internal

namespace {

constexpr size_t kMostBytesPerFile = size_t{20} << 20;
constexpr size_t kMostFiles = 5;
constexpr const char* kLevelNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

// Writes again only if a signal or a full pipe cut the first write short.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), 0750);  // errors are ignored: open() reports a missing folder
  }
  mkdir(path.c_str(), 0750);
}

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

struct Time {
  tm fields{};
  int milliseconds = 0;
  int microseconds = 0;
};

Time now() {
  timespec moment{};
  clock_gettime(CLOCK_REALTIME, &moment);
  Time time;
  localtime_r(&moment.tv_sec, &time.fields);
  time.milliseconds = static_cast<int>(moment.tv_nsec / 1'000'000);
  time.microseconds = static_cast<int>(moment.tv_nsec / 1'000 % 1'000);
  return time;
}

std::string format(const Time& time, const char* level, const char* module, const LogOrigin& origin, std::string_view message) {
  char date[32];
  strftime(date, sizeof date, "%Y-%m-%d-%H:%M:%S", &time.fields);
  char fraction[16];
  snprintf(fraction, sizeof fraction, ".%03d.%03d", time.milliseconds, time.microseconds);
  while (message.ends_with('\n')) message.remove_suffix(1);
  std::string line = text("[", level, "] ", module, "(", getpid(), ",", program_invocation_short_name, "):", date, fraction, " [",
                          file_name(origin.file), ":", origin.line, "]", gettid(), " ", origin.function, ":", message);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  return line;
}

// The log files of this process. The newest one is open.
class Files {
 public:
  void write(const Time& time, std::string_view line) {
    if (!ready(time)) return;
    if (!write_all(open_, line)) return give_up(names_.back());
    written_ += line.size();
  }

  // In a child of fork(): closes the file of the parent and forgets all names.
  void forget() {
    if (open_ >= 0) close(open_);
    *this = Files();
  }

 private:
  // Opens the first file, or the next one when this one is full. Does nothing after a failure.
  bool ready(const Time& time) {
    if (failed_) return false;
    if (open_ >= 0 && written_ < kMostBytesPerFile) return true;
    if (open_ >= 0) close(open_);
    open_ = open_next(time);
    written_ = 0;
    return open_ >= 0;
  }

  int open_next(const Time& time) {
    const std::string& folder = options().log_dir;
    if (folder.empty()) {
      errno = ENOENT;
      give_up("$HOME/ascend/log");
      return -1;
    }
    make_folders(folder + "/plog");
    char date[32];
    strftime(date, sizeof date, "%Y%m%d%H%M%S", &time.fields);
    char milliseconds[8];
    snprintf(milliseconds, sizeof milliseconds, "%03d", time.milliseconds);
    std::string name = text(folder, "/plog/plog-", getpid(), "_", date, milliseconds, ".log");
    const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (file < 0) {
      give_up(name);
      return -1;
    }
    names_.push_back(std::move(name));
    while (names_.size() > kMostFiles) {
      unlink(names_.front().c_str());
      names_.pop_front();
    }
    return file;
  }

  // Call it with errno set to the reason.
  void give_up(const std::string& name) {
    failed_ = true;
    write_all(STDERR_FILENO, text("[WARNING] softnpu: there is no log from here on: ", name, " cannot be written: ",
                                  std::strerror(errno), "; ASCEND_PROCESS_LOG_PATH says which folder it is in\n"));
  }

  int open_ = -1;
  bool failed_ = false;
  size_t written_ = 0;
  std::deque<std::string> names_;  // oldest first, the open one last
};

// Held while a line is formatted and written, and across fork(): a child gets neither a half-open file nor the C library's time
// zone lock in a locked state.
constinit std::mutex mutex;
constinit Files* files = nullptr;  // never deleted: lines may be written while the process ends

void before_fork() { mutex.lock(); }
void after_fork() { mutex.unlock(); }
void after_fork_in_child() {
  if (files != nullptr) files->forget();
  mutex.unlock();
}

// Registered at load time: at the first line it would race with a fork() in another thread.
[[maybe_unused]] const int fork_handlers = pthread_atfork(before_fork, after_fork, after_fork_in_child);

void write_to_log(const char* level, const char* module, const LogOrigin& origin, std::string_view message) {
  const std::lock_guard lock(mutex);
  const Time time = now();
  const std::string line = format(time, level, module, origin, message);
  if (options().log_to_stdout) write_all(STDOUT_FILENO, line);
  if (files == nullptr) files = new Files;
  files->write(time, line);
}

void write_line(LogLevel level, const char* module, const LogOrigin& origin, std::string_view message) {
  if (!log_enabled(level)) return;
  write_to_log(kLevelNames[static_cast<int>(level)], module, origin, message);
}

}  // namespace

void log_line(LogLevel level, const LogOrigin& origin, std::string_view message) {
  write_line(level, "RUNTIME", origin, message);
}

void warn(std::string_view message) {
  write_all(STDERR_FILENO, text("[WARNING] softnpu: ", message, "\n"));
  SOFTNPU_LOG(kWarning, message);
}

void app_log(LogLevel level, const LogOrigin& origin, std::string_view message) { write_line(level, "APP", origin, message); }

void acl_log(LogLevel level, const LogOrigin& origin, std::string_view message) {
  write_line(level, "ASCENDCL", origin, message);
}

void log_event(const LogOrigin& origin, std::string_view message) {
  if (!options().log_events || options().log_level == LogLevel::kNone) return;
  write_to_log("EVENT", "RUNTIME", origin, message);
}

}  // namespace softnpu
