#include "runtime/stream/submit_with_faults.h"

#include "runtime/dump/call.h"
#include "runtime/dump/tensors.h"

namespace softnpu::internal {

Status submit_counted(FaultPoint point, Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                      uint64_t cost, Ticket* ticket, const ReplayedTask& replayed) {
  // A captured task does not run now. Its replays are counted and dumped.
  if (stream.is_recorded.load(std::memory_order_relaxed)) return stream.submit(kind, payload, bytes, cost);
  SoftnpuOperatorDescriber describe = nullptr;
  if (kind.flags & SOFTNPU_TASK_OPERATOR) describe = replayed.describe != nullptr ? replayed.describe : operator_describer();
  std::unique_ptr<DumpedCall> dump;
  if (describe != nullptr && Dumps::are_on())
    dump = DumpedCall::begin(kind.name, {stream.device().host_number(), stream.id(), replayed.graph, replayed.replay});
  const std::shared_ptr<Ticket> number = dump != nullptr ? dump->task() : std::make_shared<Ticket>(0);
  AlteredTask task = Faults::at_task(point, stream.id(), kind, payload, bytes, describe, std::move(dump));
  if (!task.is_altered()) {
    SOFTNPU_RETURN_IF_ERROR(stream.submit(kind, payload, bytes, cost, *number));
  } else {
    SOFTNPU_RETURN_IF_ERROR(stream.submit(task.kind(), task.payload(), task.payload_bytes(), cost, *number));
    task.release();
  }
  if (ticket != nullptr) *ticket = *number;
  return {};
}

}  // namespace softnpu::internal
