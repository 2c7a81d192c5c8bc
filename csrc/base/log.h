// Lines on stderr that TORCH_NPU_LOGS asks for, by part of the plugin.
//
//   if (logs(LogPart::kMemory, LogLevel::kInfo)) log(LogPart::kMemory, LogLevel::kInfo, c10::str("reserved ", bytes, " bytes"));
//
// A line is "[torch_npu] INFO memory: ...". With TORCH_NPU_LOGS_FILTER only lines are written that hold one of its words with a
// plus, if there are any, and none of those with a minus. Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace torch_npu {

enum class LogPart { kMemory, kDispatch, kDispatchTime, kSilent, kRecovery, kOpPlugin, kShmem, kEnv, kAcl, kAclGraph };
inline constexpr std::array<std::string_view, 10> kLogParts = {"memory",    "dispatch", "dispatch_time", "silent", "recovery",
                                                               "op_plugin", "shmem",    "env",           "acl",    "aclgraph"};

enum class LogLevel : uint8_t { kDebug, kInfo, kError, kNone };

// The least level that is written, by part.
using LogLevels = std::array<LogLevel, kLogParts.size()>;
inline constexpr LogLevels kNoLogs = [] {
  LogLevels levels;
  levels.fill(LogLevel::kNone);
  return levels;
}();

// Reads parts separated by commas: "+memory" from debug on, "memory" from info on, "-memory" errors only; all means each part.
// False if there is another word, and then `levels` stays as it is.
bool parse_log_levels(std::string_view text, LogLevels& levels);

// Whether every item, separated by commas, is a word behind a plus or a minus.
bool is_log_filter(std::string_view text);

C10_EXPORT bool logs(LogPart part, LogLevel level);
C10_EXPORT void log(LogPart part, LogLevel level, std::string_view line);
// The same while the environment is still being read.
void log(LogPart part, LogLevel level, std::string_view line, std::string_view filter);

}  // namespace torch_npu
