// The log of this process, in the layout that users of the vendor's runtime know:
//
//   SOFTNPU_LOG(kError, "stream ", id, " was destroyed");
//   [ERROR] RUNTIME(4711,train):2025-01-31-12:00:00.123.456 [stream.cpp:88]4713 destroy:stream 7 was destroyed
//
// Lines go to <log_dir>/plog/plog-<pid>_<time>.log, made at the first line, and also to stdout with log_to_stdout. A file that
// reaches 20 MiB is followed by a new one; a process keeps its last five. A log that cannot be written is given up; one line
// on stderr says so. Thread-safe; a line is written by one write(2) per destination. A child of fork writes a file of its own.
#pragma once

#include <atomic>
#include <string_view>

#include "runtime/base/options.h"
#include "runtime/base/status.h"

namespace softnpu {

// Where a line comes from. `file` may be a path; its last part is shown.
struct LogOrigin {
  const char* file;
  int line;
  const char* function;
};

namespace internal {
// Below the level in force, or kDebug as long as the options are not read: the out-of-line check then decides.
extern constinit std::atomic<LogLevel> log_threshold;
bool log_enabled_by_options(LogLevel level);
}  // namespace internal

// Whether a line of `level` goes anywhere; one load and one comparison when it does not.
inline bool log_enabled(LogLevel level) {
  return level >= internal::log_threshold.load(std::memory_order_relaxed) && internal::log_enabled_by_options(level);
}

// Writes one line if `level` is enabled; line breaks in `message` become blanks.
void log_line(LogLevel level, const LogOrigin& origin, std::string_view message);

// Milestones (a device was opened, a process begins to wait): written only with log_events, whatever the level, unless that is
// kNone.
void log_event(const LogOrigin& origin, std::string_view message);

// What a user has to know: a line on stderr, whatever the level, and one in the log.
void warn(std::string_view message);

// A line of the client, under the module name APP (aclAppLog).
void app_log(LogLevel level, const LogOrigin& origin, std::string_view message);

}  // namespace softnpu

// Formats its arguments, as text() does, only if the level is enabled.
#define SOFTNPU_LOG(level, ...)                                                                                      \
  do {                                                                                                               \
    if (::softnpu::log_enabled(::softnpu::LogLevel::level)) {                                                        \
      ::softnpu::log_line(::softnpu::LogLevel::level, {__FILE__, __LINE__, __func__}, ::softnpu::text(__VA_ARGS__)); \
    }                                                                                                                \
  } while (false)

#define SOFTNPU_LOG_EVENT(...)                                                            \
  do {                                                                                    \
    if (::softnpu::options().log_events) {                                                \
      ::softnpu::log_event({__FILE__, __LINE__, __func__}, ::softnpu::text(__VA_ARGS__)); \
    }                                                                                     \
  } while (false)
