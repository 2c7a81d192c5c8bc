// The log of this process, in the layout that users of the vendor's runtime know:
//
//   SOFTNPU_LOG(kError, "stream ", id, " was destroyed");
//   [ERROR] RUNTIME(4711,train):2025-01-31-12:00:00.123.456 [stream.cpp:88]4713 destroy:stream 7 was destroyed
//
// Lines go to <log_dir>/plog/plog-<pid>_<time>.log, made at the first line, and also to stdout with log_to_stdout. After 20 MiB a
// new file is begun; a process keeps its last five. If a file cannot be written, one line on stderr says so and logging ends.
// Thread-safe; a line is one write(2) per destination. A child of fork() writes its own file.
#pragma once

#include <atomic>
#include <string_view>

#include "runtime/base/options.h"
#include "runtime/base/status.h"

namespace softnpu {

// The place in the source that writes a line. `file` may be a path; its last part is shown.
struct LogOrigin {
  const char* file;
  int line;
  const char* function;
};

namespace internal {
// The lowest level that may be enabled: kDebug until the options are read. log_enabled_by_options() then decides.
extern constinit std::atomic<LogLevel> log_threshold;
bool log_enabled_by_options(LogLevel level);
}  // namespace internal

// Whether a line of `level` is written. Costs one load and one comparison if it is not.
inline bool log_enabled(LogLevel level) {
  return level >= internal::log_threshold.load(std::memory_order_relaxed) && internal::log_enabled_by_options(level);
}

// Writes one line if `level` is enabled; line breaks in `message` become blanks.
void log_line(LogLevel level, const LogOrigin& origin, std::string_view message);

// Writes a line about a milestone, such as "device 0 opened". Only with log_events; the level does not matter unless it is kNone.
void log_event(const LogOrigin& origin, std::string_view message);

// Writes a line to stderr, whatever the level, and a warning to the log.
void warn(std::string_view message);

// Writes a line of the client under the module name APP (aclAppLog).
void app_log(LogLevel level, const LogOrigin& origin, std::string_view message);

// Writes a line under the module name ASCENDCL.
void acl_log(LogLevel level, const LogOrigin& origin, std::string_view message);

}  // namespace softnpu

// Formats its arguments as text() does. They are evaluated only if the level is enabled.
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
