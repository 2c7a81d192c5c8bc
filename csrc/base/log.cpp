#include "base/log.h"

#include <c10/util/StringUtil.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/options.h"
#include "base/parse.h"

namespace torch_npu {
namespace {

constexpr std::string_view kLevelNames[] = {"DEBUG", "INFO", "ERROR"};

bool passes(std::string_view line, std::string_view filter) {
  bool has_wanted = false, is_wanted = false;
  for (const std::string_view item : split(filter, ',')) {
    const bool is_found = line.find(item.substr(1)) != std::string_view::npos;
    if (item.front() == '-' && is_found) return false;
    if (item.front() != '+') continue;
    has_wanted = true;
    is_wanted |= is_found;
  }
  return is_wanted || !has_wanted;
}

}  // namespace

bool parse_log_levels(std::string_view text, LogLevels& levels) {
  LogLevels found = kNoLogs;
  for (std::string_view item : split(text, ',')) {
    LogLevel level = LogLevel::kInfo;
    if (item.starts_with('+')) level = LogLevel::kDebug;
    if (item.starts_with('-')) level = LogLevel::kError;
    if (level != LogLevel::kInfo) item.remove_prefix(1);
    const auto* part = std::find(kLogParts.begin(), kLogParts.end(), item);
    if (item == "all") {
      found.fill(level);
    } else if (part != kLogParts.end()) {
      found[static_cast<size_t>(part - kLogParts.begin())] = level;
    } else {
      return false;
    }
  }
  levels = found;
  return true;
}

bool is_log_filter(std::string_view text) {
  const auto items = split(text, ',');
  return std::all_of(items.begin(), items.end(),
                     [](std::string_view item) { return item.size() > 1 && (item.front() == '+' || item.front() == '-'); });
}

bool logs(LogPart part, LogLevel level) { return options().logs[static_cast<size_t>(part)] <= level; }

void log(LogPart part, LogLevel level, std::string_view line) { log(part, level, line, options().logs_filter); }

void log(LogPart part, LogLevel level, std::string_view line, std::string_view filter) {
  const std::string text = c10::str("[torch_npu] ", kLevelNames[static_cast<size_t>(level)], " ",
                                    kLogParts[static_cast<size_t>(part)], ": ", line, "\n");
  if (!passes(text, filter)) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace torch_npu
