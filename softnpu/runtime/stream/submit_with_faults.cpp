#include "runtime/stream/submit_with_faults.h"

namespace softnpu::internal {

Status submit_counted(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                      uint64_t cost, Ticket* ticket) {
  // A captured task does not run; its replays are counted.
  if (stream.is_recorded.load(std::memory_order_relaxed)) return stream.submit(kind, payload, bytes, cost);
  AlteredTask task = Faults::at_task(point, stream.id(), kind, payload, bytes);
  Ticket unused = 0;
  if (ticket == nullptr) ticket = &unused;
  if (!task.is_altered()) return stream.submit(kind, payload, bytes, cost, *ticket);
  SOFTNPU_RETURN_IF_ERROR(stream.submit(task.kind(), task.payload(), task.payload_bytes(), cost, *ticket));
  task.release();
  return {};
}

}  // namespace softnpu::internal
