// The race check: finds two tasks that access the same bytes, at least one of them writing, and that nothing orders.
//
//   if (races_are_checked()) {
//     const std::string* origin = races().origin();                                       // without holding a lock
//     SOFTNPU_RETURN_IF_ERROR(races().admit(stream, ticket, kind, payload, origin));      // when the task gets its ticket
//   }
//
// The check uses the order that the client asked for, not the order of this run. So it finds a race in every run. Each stream has
// a vector clock: for every other stream, the newest ticket that is done before the next task of this stream starts.
//   - Events: a record copies the clock of its stream; a wait merges the copy into the clock of the waiting stream, even if the
//     mark was reached before.
//   - The host has one clock for all its threads. Every successful wait or query merges the clock of that point into the host's
//     clock, and every submitted task merges the host's clock into its stream's clock.
// The check cannot follow some waits: for a value in memory, an event of another process, or a thread of the client. After such a
// wait a stream is not checked until the host has waited for it. So there are no false reports.
//
// Synchronous copies are accesses of the host. Allocating memory removes its earlier accesses. Freeing memory that a stream may
// still use is a race. Device memory and pinned and registered host memory are checked; pageable memory is not.
//
// A report is one line on stderr and in the log, and is kept for the command `races`. The same two tasks on the same two streams
// are reported once. With SOFTNPU_RACE_CHECK=fail the call that completes the race fails as well, and its task is not queued.
// Thread-safe, by one lock. Callers may hold the locks of queues and events when they call it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/checks/access_map.h"
#include "runtime/driver.h"

namespace softnpu {

// A vector clock: the tasks that are done at some point. A stream is named by the number of its queue, whose tickets only grow.
struct RaceClock {
  std::vector<Ticket> over;  // newest ticket by stream; 0 or missing if none is known
  bool is_unclear = false;   // the point is after a wait that the check cannot follow

  bool knows(const Access& access) const { return access.stream < over.size() && over[access.stream] >= access.ticket; }
  // Merges. Returns whether the clock changed.
  bool learn(const RaceClock& other);
  bool learn(uint32_t stream, Ticket ticket);
};

class Races {
 public:
  // The place in the client's program, from the function of softnpuSetOrigin; null if it is unknown. Call it without holding a
  // lock.
  const std::string* origin();

  // Checks the accesses of a task that is about to get `ticket`.
  Status admit(uint32_t stream, Ticket ticket, const SoftnpuTaskKind& kind, const void* payload, const std::string* origin);

  // The clock at the point where `ticket` of `stream` is done.
  RaceClock clock_at(uint32_t stream, Ticket ticket);
  // Later tasks of the stream start after the point of `clock`.
  void stream_learns(uint32_t stream, const RaceClock& clock);
  void host_learns(const RaceClock& clock);

  // Checks the accesses of the host in the call `function`. Addresses are kernel addresses.
  Status check_host(const char* function, const std::function<void(SoftnpuAccessVisitor visitor, void* context)>& visit);

  // Memory was allocated: removes the earlier accesses to these addresses.
  void forget(const void* address, size_t bytes);
  // Checks memory that `function` is about to free.
  Status check_free(const char* function, const void* address, size_t bytes);

  // The reports since the last call, one per line.
  std::string take_reports();

 private:
  struct StreamState {
    RaceClock clock;
    uint64_t host_version = 0;  // version of the host's clock that `clock` contains
    Ticket newest = 0;
    Ticket unclear_from = 0;  // not checked until this ticket is done in the host's clock; 0 if the stream is checked
  };
  struct Touch {
    Range range;
    bool writes;
    bool atomic;
  };
  // The access that is checked now, and the clock at its begin.
  struct Toucher {
    Access access;
    bool is_host;
    bool frees;
    const RaceClock* clock;
  };

  StreamState& stream_at(uint32_t number);
  bool is_unclear(uint32_t number);
  void collect(const void* address, size_t bytes, uint32_t flags);
  // Reports all conflicts of `touches_` and returns the first one as a failure.
  Status check_touches(const Toucher& now);
  std::string describe(const Toucher& now, bool writes, const Access& before, bool wrote, const Range& part) const;
  // Notes that the two are reported. Returns false if they were reported before.
  bool is_news(const Toucher& now, const Access& before);
  void report(const std::string& line);
  void keep_small();

  std::mutex mutex_;  // guards the following
  std::vector<StreamState> streams_;
  RaceClock host_;
  uint64_t host_version_ = 1;
  AccessMap map_;
  size_t sweep_at_ = 0;
  std::vector<Touch> touches_;  // accesses of the task or call that is checked now
  std::unordered_set<std::string> origins_;

  std::set<std::pair<std::string, std::string>> reported_;
  std::vector<std::string> reports_;
};

inline bool races_are_checked() { return options().race_check != RaceCheck::kOff; }
// Call it only if races_are_checked().
Races& races();

}  // namespace softnpu
