// The rules of fault injection (checks/faults.h), parsed from text.
//
//   Result<std::vector<FaultRule>> rules = parse_fault_rules("malloc:3+, launch:every 7:507015, delay:stream=2:50ms");
//   rules.value()[1].when.holds(14, stream)   // true
//
// docs/checks.md has the grammar.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace softnpu {

// The kinds of calls that rules name. Each kind has its own count.
enum class FaultPoint {
  kMalloc,      // device memory
  kHostMalloc,  // pinned host memory
  kLaunch,      // tasks of operator libraries
  kCopy         // copies, fills and reductions of the runtime
};
constexpr size_t kFaultPoints = 4;
// The name in rules.
std::string_view name_of(FaultPoint point);

// The calls to which a rule applies.
struct FaultTime {
  enum class Kind { kOnce, kFrom, kEvery, kStream };
  Kind kind = Kind::kOnce;
  uint64_t number = 0;  // of a call, counted from 1, or of a stream

  // `call` is the number of the call among calls of its kind; `stream` is -1 for a call without a stream.
  bool holds(uint64_t call, int32_t stream) const;
};

struct FaultRule {
  std::string name;                 // the text of the rule
  std::optional<FaultPoint> point;  // empty for a delay and for a wrong value
  std::string wrong;                // for the rule `wrong`: the name of the operator, without "aclnn"
  FaultTime when;
  aclError code = ACL_SUCCESS;
  std::chrono::microseconds delay{0};
};

// Whether FaultRule::wrong names the operator whose task kind has the name `kind`.
bool names_operator(const std::string& wrong, std::string_view kind);

// SOFTNPU_FAULTS and the command `faults` accept this word instead of rules.
constexpr std::string_view kFaultsOff = "off";

// A bad rule is ACL_ERROR_INVALID_PARAM, with the rule and the grammar. "count" is a rule that does nothing.
Result<std::vector<FaultRule>> parse_fault_rules(std::string_view rules);

}  // namespace softnpu
