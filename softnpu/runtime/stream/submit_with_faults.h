// Stream::submit() under the rules of SOFTNPU_FAULTS (checks/faults.h) and under a dump (dump/dumps.h).
//
//   SOFTNPU_RETURN_IF_ERROR(submit_with_faults(FaultPoint::kLaunch, stream, kind, &payload, sizeof payload, cost));
//
// If a rule applies, the task fails, starts late or computes a wrong value when the stream reaches it. It keeps its own name and
// is released as usual. While there is no rule and no dump, the call costs one relaxed load more than Stream::submit().
#pragma once

#include "runtime/checks/faults.h"
#include "runtime/stream/stream.h"

namespace softnpu {

// The extra data of a task that a replay submits.
struct ReplayedTask {
  SoftnpuOperatorDescriber describe = nullptr;  // lists the tensors of the replayed payload
  uint64_t graph = 0;                           // the number of the graph; 0 outside of replays
  uint64_t replay = 0;
};

namespace internal {
Status submit_counted(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                      uint64_t cost, Ticket* ticket, const ReplayedTask& replayed);
}  // namespace internal

// `ticket` may be null; otherwise it receives the ticket of the task, unless the task was recorded for a graph.
inline Status submit_with_faults(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                                 uint64_t cost, Ticket* ticket = nullptr, const ReplayedTask& replayed = {}) {
  if (submit_hooks.load(std::memory_order_relaxed) == 0) [[likely]]
    return ticket == nullptr ? stream.submit(kind, payload, bytes, cost) : stream.submit(kind, payload, bytes, cost, *ticket);
  return internal::submit_counted(point, stream, kind, payload, bytes, cost, ticket, replayed);
}

}  // namespace softnpu
