#include "runtime/base/fault_rules.h"

#include <algorithm>
#include <array>

#include "acl/error_codes/rt_error_codes.h"
#include "runtime/base/parse.h"

namespace softnpu {
namespace {

using std::chrono::microseconds;

struct PointRow {
  std::string_view name;
  aclError standard_code;
};
constexpr std::array<PointRow, kFaultPoints> kPoints = {
    {{"malloc", ACL_ERROR_RT_MEMORY_ALLOCATION},
     {"hostmalloc", ACL_ERROR_RT_MEMORY_ALLOCATION},
     {"launch", ACL_ERROR_RT_AICORE_EXCEPTION},
     {"copy", ACL_ERROR_RT_DRV_INTERNAL_ERROR}}};  // in the order of FaultPoint
constexpr std::string_view kDelay = "delay";
constexpr std::string_view kWrong = "wrong";
constexpr std::string_view kOperatorPrefix = "aclnn";
constexpr std::string_view kCount = "count";
constexpr std::string_view kGrammar =
    "a rule is malloc:WHEN, hostmalloc:WHEN, launch:WHEN or copy:WHEN, each optionally with :CODE; or delay:WHEN:TIME; or "
    "wrong:OPERATOR:WHEN with an operator such as aclnnAdd; or count. WHEN is N, N+ or every N, and for a delay also stream=ID. "
    "TIME is for example 50us, 200ms or 2s";

std::vector<std::string_view> split_at(std::string_view list, char separator) {
  std::vector<std::string_view> items;
  for (size_t end; (end = list.find(separator)) != std::string_view::npos; list.remove_prefix(end + 1)) {
    items.push_back(trim(list.substr(0, end)));
  }
  items.push_back(trim(list));
  return items;
}

bool remove_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text = trim(text.substr(prefix.size()));
  return true;
}

bool remove_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

bool parse_when(std::string_view text, bool is_delay, FaultTime& when) {
  if (is_delay && remove_prefix(text, "stream=")) {
    when.kind = FaultTime::Kind::kStream;
    return parse_number(text, uint64_t{0}, uint64_t{INT32_MAX}, when.number);
  }
  if (remove_prefix(text, "every ")) {
    when.kind = FaultTime::Kind::kEvery;
  } else if (remove_suffix(text, "+")) {
    when.kind = FaultTime::Kind::kFrom;
  }
  return parse_number(text, uint64_t{1}, uint64_t{UINT32_MAX}, when.number);
}

bool parse_time(std::string_view text, microseconds& time) {
  constexpr microseconds kLongest = std::chrono::hours(1);
  int64_t unit = 0;
  if (remove_suffix(text, "us")) {
    unit = 1;
  } else if (remove_suffix(text, "ms")) {
    unit = 1'000;
  } else if (remove_suffix(text, "s")) {
    unit = 1'000'000;
  } else {
    return false;
  }
  int64_t count = 0;
  if (!parse_number(text, int64_t{1}, kLongest.count() / unit, count)) return false;
  time = microseconds(count * unit);
  return true;
}

bool parse_operator(std::string_view name, std::string& out) {
  if (name.starts_with(kOperatorPrefix)) name.remove_prefix(kOperatorPrefix.size());
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_part)) return false;
  out = name;
  return true;
}

bool parse_rule(std::string_view text, FaultRule& rule) {
  const std::vector<std::string_view> parts = split_at(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return false;
  rule.name = text;
  if (parts[0] == kDelay) {
    return parts.size() == 3 && parse_when(parts[1], /*is_delay=*/true, rule.when) && parse_time(parts[2], rule.delay);
  }
  if (parts[0] == kWrong) {
    return parts.size() == 3 && parse_operator(parts[1], rule.wrong) && parse_when(parts[2], /*is_delay=*/false, rule.when);
  }
  const auto* row = std::find_if(kPoints.begin(), kPoints.end(), [&](const PointRow& r) { return r.name == parts[0]; });
  if (row == kPoints.end() || !parse_when(parts[1], /*is_delay=*/false, rule.when)) return false;
  rule.point = FaultPoint(row - kPoints.begin());
  rule.code = row->standard_code;
  return parts.size() == 2 || parse_number(parts[2], 1, INT32_MAX, rule.code);
}

}  // namespace

std::string_view name_of(FaultPoint point) { return kPoints[size_t(point)].name; }

bool names_operator(const std::string& wrong, std::string_view kind) {
  if (kind.starts_with(kOperatorPrefix)) kind.remove_prefix(kOperatorPrefix.size());
  return kind == wrong;
}

bool FaultTime::holds(uint64_t call, int32_t stream) const {
  switch (kind) {
    case Kind::kOnce:
      return call == number;
    case Kind::kFrom:
      return call >= number;
    case Kind::kEvery:
      return call % number == 0;
    case Kind::kStream:
      return stream >= 0 && uint64_t(stream) == number;
  }
  return false;
}

Result<std::vector<FaultRule>> parse_fault_rules(std::string_view rules) {
  std::vector<FaultRule> parsed;
  for (const std::string_view text_of_rule : split(rules)) {
    if (text_of_rule == kCount) continue;
    FaultRule rule;
    if (!parse_rule(text_of_rule, rule)) {
      return Status(ACL_ERROR_INVALID_PARAM, text("'", text_of_rule, "' is not a fault rule: ", kGrammar));
    }
    parsed.push_back(std::move(rule));
  }
  return parsed;
}

}  // namespace softnpu
