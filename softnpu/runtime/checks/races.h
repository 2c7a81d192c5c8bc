// The race check: finds two tasks that touch the same bytes, one of them writing, with nothing that orders them.
//
//   if (races_are_checked()) {
//     const std::string* origin = races().origin();                                       // before any lock is taken
//     SOFTNPU_RETURN_IF_ERROR(races().admit(stream, ticket, kind, payload, origin));      // when the task gets its ticket
//   }
//
// What orders tasks is what the client asked for, not what happened to run first, so a race is found in every run. Each stream
// has a clock: for every other stream, the newest ticket that is over before its next task starts. It is told by
//   - an event: recording takes the clock along, waiting hands it over, whether or not the mark was reached already;
//   - the host, which has one clock for all its threads: it learns from everything that waits for the device or asks it
//     successfully, and every task knows what the host knew when it was submitted.
// Streams that wait for something which the check cannot follow (a value in memory, an event of another process, a thread of the
// client) are not judged until the host has waited for them: there are no false reports.
//
// Copies that the host makes itself are its own accesses; allocating memory forgets what was done to it, freeing what a stream
// may still use is a race. Device memory, pinned and registered host memory are watched; pageable memory is not.
//
// A report is one line on stderr and in the log, and is kept for the command `races`; the same two tasks on the same two streams
// are reported once. With SOFTNPU_RACE_CHECK=fail the call that completes the race fails as well, and its task is not queued.
// Thread-safe, by one lock that is taken last.
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

// What is over at some point. Streams are the numbers of their queues; their tickets never start again.
struct RaceClock {
  std::vector<Ticket> over;  // the newest by stream; 0, or missing, where nothing is known
  bool is_unclear = false;   // the point is behind something that the check cannot follow

  bool knows(const Access& access) const { return access.stream < over.size() && over[access.stream] >= access.ticket; }
  // Whether that taught it anything.
  bool learn(const RaceClock& other);
  bool learn(uint32_t stream, Ticket ticket);
};

class Races {
 public:
  // Where the client is now, as softnpuSetOrigin's function says; null if there is none. Call it without a lock.
  const std::string* origin();

  // A task is about to get `ticket`.
  Status admit(uint32_t stream, Ticket ticket, const SoftnpuTaskKind& kind, const void* payload, const std::string* origin);

  // What is over when `ticket` of `stream` is.
  RaceClock clock_at(uint32_t stream, Ticket ticket);
  // The stream's next tasks start after that.
  void stream_learns(uint32_t stream, const RaceClock& clock);
  void host_learns(const RaceClock& clock);

  // The host touches memory in the call `function`, by the addresses that kernels use.
  Status check_host(const char* function, const std::function<void(SoftnpuAccessVisitor visitor, void* context)>& visit);

  // Memory was allocated: what was done to these addresses before does not matter.
  void forget(const void* address, size_t bytes);
  // Memory is about to be freed by `function`.
  Status check_free(const char* function, const void* address, size_t bytes);

  // The reports since the last call, one per line.
  std::string take_reports();

 private:
  struct StreamState {
    RaceClock clock;
    uint64_t host_version = 0;  // of the host's clock when `clock` learnt it last
    Ticket newest = 0;
    Ticket unclear_from = 0;  // not judged until the host knows that this ticket is over; 0 if it is
  };
  struct Touch {
    Range range;
    bool writes;
    bool atomic;
  };
  // Who touches memory now, and what is over for it.
  struct Toucher {
    Access access;
    bool is_host;
    bool frees;
    const RaceClock* clock;
  };

  StreamState& stream_at(uint32_t number);
  bool is_unclear(uint32_t number);
  void collect(const void* address, size_t bytes, uint32_t flags);
  // The first conflict of `touches_` as a failure; all are reported.
  Status check_touches(const Toucher& now);
  std::string describe(const Toucher& now, bool writes, const Access& before, bool wrote, const Range& part) const;
  // Whether these two were not reported yet; they are now.
  bool is_news(const Toucher& now, const Access& before);
  void report(const std::string& line);
  void keep_small();

  std::mutex mutex_;  // guards all that follows
  std::vector<StreamState> streams_;
  RaceClock host_;
  uint64_t host_version_ = 1;
  AccessMap map_;
  size_t sweep_at_ = 0;
  std::vector<Touch> touches_;  // of the task in hand
  std::unordered_set<std::string> origins_;

  std::set<std::pair<std::string, std::string>> reported_;
  std::vector<std::string> reports_;
};

inline bool races_are_checked() { return options().race_check != RaceCheck::kOff; }
// Only while races are checked.
Races& races();

}  // namespace softnpu
