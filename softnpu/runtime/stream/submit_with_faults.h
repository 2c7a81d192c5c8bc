// Stream::submit() under the rules of SOFTNPU_FAULTS (checks/faults.h).
//
//   SOFTNPU_RETURN_IF_ERROR(submit_with_faults(FaultPoint::kLaunch, stream, kind, &payload, sizeof payload, cost));
//
// Where a rule applies, the task fails or starts late when the stream reaches it, under its own name, and is released as usual.
// While no rule is set, the call costs one relaxed load more than Stream::submit().
#pragma once

#include "runtime/checks/faults.h"
#include "runtime/stream/stream.h"

namespace softnpu {

namespace internal {
Status submit_counted(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                      uint64_t cost, Ticket* ticket);
}  // namespace internal

// `ticket` may be null; otherwise it receives the ticket of the task, unless the task was recorded for a graph.
inline Status submit_with_faults(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                                 uint64_t cost, Ticket* ticket = nullptr) {
  if (!Faults::are_on()) [[likely]]
    return ticket == nullptr ? stream.submit(kind, payload, bytes, cost) : stream.submit(kind, payload, bytes, cost, *ticket);
  return internal::submit_counted(point, stream, kind, payload, bytes, cost, ticket);
}

}  // namespace softnpu
