// The log of TORCH_NPU_LOGS: lines on stderr, switched on by part of the plugin.
//
//   if (logs(LogPart::kMemory, LogLevel::kInfo)) log(LogPart::kMemory, LogLevel::kInfo, c10::str("reserved ", bytes, " bytes"));
//
// A line is "[torch_npu] INFO memory: ...". TORCH_NPU_LOGS_FILTER drops lines that contain one of its words with a minus. If it
// has words with a plus, it also drops lines that contain none of these. Thread-safe.
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

// For each part, the lowest level that is written.
using LogLevels = std::array<LogLevel, kLogParts.size()>;
inline constexpr LogLevels kNoLogs = [] {
  LogLevels levels;
  levels.fill(LogLevel::kNone);
  return levels;
}();

// Reads parts separated by commas: "+memory" from debug on, "memory" from info on, "-memory" errors only; "all" stands for all
// parts. Returns false, and leaves `levels` unchanged, for any other word.
bool parse_log_levels(std::string_view text, LogLevels& levels);

// Whether each item, separated by commas, is a word after a plus or a minus.
bool is_log_filter(std::string_view text);

C10_EXPORT bool logs(LogPart part, LogLevel level);
C10_EXPORT void log(LogPart part, LogLevel level, std::string_view line);
// The same with a given filter, for use before options() has returned.
void log(LogPart part, LogLevel level, std::string_view line, std::string_view filter);

}  // namespace torch_npu
