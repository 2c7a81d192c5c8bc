// Fault injection: rules make calls fail, start late or compute a wrong value. They test the error handling of a program and the
// tools that search for errors. Dumps (dump/call.h) change tasks in the same way.
//
//   Faults::set("malloc:3,launch:7:507015");   // the third device allocation and the seventh task from now fail
//   Faults::set("count");                      // nothing fails, everything is counted
//   Faults::counts();                          // "malloc 2\nhostmalloc 0\nlaunch 41\n..."
//   Faults::set("off");
//
// docs/checks.md has the grammar of rules. While no rule is set, a call costs one relaxed load. Thread-safe: concurrent calls are
// counted one after another, each once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/fault_rules.h"
#include "runtime/base/submit_hooks.h"
#include "runtime/driver.h"
#include "runtime/dump/call.h"
#include "runtime/operators.h"

namespace softnpu {

// Replaces a task that a rule or a dump changes. Its kind has the name and flags of the original kind.
class AlteredTask {
 public:
  struct State;

  AlteredTask();
  AlteredTask(const SoftnpuTaskKind& kind, std::unique_ptr<State> state);
  // Drops the copy of the original payload without releasing it, unless release() was called.
  ~AlteredTask();
  AlteredTask(AlteredTask&&) noexcept;
  AlteredTask(const AlteredTask&) = delete;
  AlteredTask& operator=(const AlteredTask&) = delete;

  bool is_altered() const { return kind_ != nullptr; }
  // Only if it is altered.
  const SoftnpuTaskKind& kind() const { return *kind_; }
  const void* payload() const { return &state_; }
  size_t payload_bytes() const { return sizeof state_; }
  // The stream has taken the task and owns its payload from now on.
  void release();

 private:
  const SoftnpuTaskKind* kind_ = nullptr;
  State* state_ = nullptr;  // owned until release(); the payload is this pointer
};

class Faults {
 public:
  // Replaces the rules and resets the counts. "off" removes the rules, stops counting and keeps the counts. A bad rule is
  // ACL_ERROR_INVALID_PARAM with the rule, and nothing changes.
  static Status set(std::string_view rules);
  // Sets the rules of SOFTNPU_FAULTS, unless set() was called before.
  static void read_setting();

  // One "name number" per line since the last set(): malloc, hostmalloc, launch, copy; task: tasks submitted to streams;
  // injected: failures; delayed: delays.
  static std::string counts();

  static bool are_on() { return submit_hooks.load(std::memory_order_relaxed) & kFaultHook; }

  // Counts a call that does its work before it returns. Fails where a rule applies.
  static Status at_call(FaultPoint point) {
    if (!are_on()) [[likely]]
      return {};
    return count_call(point);
  }

  // Counts a task that will be submitted to the stream with this number. `describe` lists the tensors of an operator; it is null
  // for other tasks. `dump` is null if the task is not dumped. Call submit_with_faults() of the stream room instead.
  static AlteredTask at_task(FaultPoint point, int32_t stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                             SoftnpuOperatorDescriber describe, std::unique_ptr<DumpedCall> dump);

 private:
  static Status count_call(FaultPoint point);
};

}  // namespace softnpu
