// Failures and delays on purpose, where rules ask for them: so that a program's way out of every failure can be tested.
//
//   Faults::set("malloc:3,launch:7:507015");   // the third device allocation and the seventh task from now fail
//   Faults::set("count");                      // nothing fails, everything is counted
//   Faults::counts();                          // "malloc 2\nhostmalloc 0\nlaunch 41\n..."
//   Faults::set("off");
//
// docs/checks.md has the grammar of rules. Off, a call asks one relaxed flag. Thread-safe: concurrent calls are counted one after
// another, each once.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "runtime/checks/fault_rules.h"
#include "runtime/stream/stream.h"

namespace softnpu {

class Faults {
 public:
  // Replaces the rules and starts the counts anew; "off" ends both and leaves the counts to be read. ACL_ERROR_INVALID_PARAM,
  // naming the rule, where one is bad: then nothing changes.
  static Status set(std::string_view rules);
  // What set() would say.
  static Status check(std::string_view rules);
  // The rules of SOFTNPU_FAULTS, unless rules were set before. Only the first call does something.
  static void read_setting();

  // One "name number" per line since the last set(): malloc, hostmalloc, launch, copy; task, what was put on streams; injected,
  // the failures; delayed.
  static std::string counts();

  // Counts a call that does its work at once, and fails where a rule says so.
  static Status at_call(FaultPoint point) {
    if (!on_.load(std::memory_order_relaxed)) [[likely]]
      return {};
    return count_call(point);
  }

  // Stream::submit, except that the task may fail or wait where a rule says so: when it runs, in its stream's order and under its
  // own name, and it is released as always.
  static Status submit(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                       uint64_t cost, Ticket* ticket = nullptr) {
    if (!on_.load(std::memory_order_relaxed)) [[likely]]
      return ticket == nullptr ? stream.submit(kind, payload, bytes, cost) : stream.submit(kind, payload, bytes, cost, *ticket);
    return submit_counted(point, stream, kind, payload, bytes, cost, ticket);
  }

 private:
  static Status count_call(FaultPoint point);
  static Status submit_counted(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                               uint64_t cost, Ticket* ticket);

  static inline constinit std::atomic<bool> on_{false};
};

}  // namespace softnpu
