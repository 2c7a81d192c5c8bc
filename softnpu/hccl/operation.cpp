#include "hccl/operation.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "hccl/collectives/collectives.h"
#include "hccl/library.h"
#include "runtime/base/message.h"
#include "runtime/profiler.h"

#pragma weak softnpuProfiler

namespace softnpu::hccl {
namespace {

Status run_collective(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  switch (operation.op) {
    case Op::kAllReduce:
      return all_reduce(communicator, operation, sequence);
    case Op::kBroadcast:
      return broadcast(communicator, operation, sequence);
    case Op::kReduceScatter:
    case Op::kReduceScatterV:
      return reduce_scatter(communicator, operation, sequence);
    case Op::kAllGather:
    case Op::kAllGatherV:
      return all_gather(communicator, operation, sequence);
    case Op::kReduce:
      return reduce(communicator, operation, sequence);
    case Op::kScatter:
      return scatter(communicator, operation, sequence);
    case Op::kAllToAll:
    case Op::kAllToAllV:
    case Op::kAllToAllVC:
      return all_to_all(communicator, operation, sequence);
    default:
      return barrier(communicator, operation, sequence);
  }
}

Status run_operation(const Operation& operation) {
  Communicator& communicator = *operation.communicator;
  const Communicator::Running running(communicator);
  if (communicator.has_failed()) return communicator.failure();
  SOFTNPU_RETURN_IF_ERROR(communicator.check_peers());
  if (!operation.messages.empty() || operation.op == Op::kBatch) return exchange_messages(communicator, operation);
  const std::lock_guard lock(communicator.collective_lock());
  if (communicator.has_failed()) return communicator.failure();
  Status status = run_collective(communicator, operation, communicator.next_collective());
  communicator.trim_scratch();
  return status;
}

Operation& operation_of(const void* payload) { return **static_cast<Operation* const*>(payload); }

aclError run_task(void* payload, char* message) {
  const Operation& operation = operation_of(payload);
  Status status;
  try {
    status = run_operation(operation);
  } catch (const std::exception& error) {
    status = {HCCL_E_INTERNAL, error.what()};
  }
  if (status.ok()) return ACL_SUCCESS;
  operation.communicator->fail(status);
  if (task_is_aborted()) return ACL_SUCCESS;  // waiting ranks get the reason of the abort, and the stream stays usable
  write_message(message, text(status.message(), " (", result_name(static_cast<HcclResult>(status.code())), ")"));
  return stream_error(static_cast<HcclResult>(status.code()));
}

void release_task(void* payload) { delete &operation_of(payload); }

void visit_task(const void* payload, SoftnpuAccessVisitor visitor, void* context) {
  for (const Operation::Range& range : operation_of(payload).ranges) {
    visitor(context, range.begin, range.bytes, range.is_written ? SOFTNPU_ACCESS_WRITES : 0);
  }
}

const SoftnpuTaskKind& kind_of(Op op) {
  static const auto kinds = [] {
    std::array<SoftnpuTaskKind, static_cast<size_t>(Op::kCount)> all;
    for (size_t index = 0; index < all.size(); ++index) {
      all[index] = {.name = function_name(static_cast<Op>(index)),
                    .run = run_task,
                    .release = release_task,
                    .ready = nullptr,
                    .flags = SOFTNPU_TASK_ON_WORKER,
                    .visit = visit_task};
    }
    return all;
  }();
  return kinds[static_cast<size_t>(op)];
}

// Tells the records of the runtime how many bytes the next task moves.
void record_bytes(const Operation& operation) {
  static const SoftnpuProfiler* const profiler = softnpuProfiler == nullptr ? nullptr : softnpuProfiler(SOFTNPU_PROFILER_VERSION);
  if (profiler == nullptr || (__atomic_load_n(profiler->on, __ATOMIC_RELAXED) & SOFTNPU_RECORD_TASKS) == 0) return;
  uint64_t bytes = 0;
  for (const Operation::Range& range : operation.ranges) bytes = std::max<uint64_t>(bytes, range.bytes);
  profiler->describe_next(bytes, 0, nullptr, 0);
}

}  // namespace

Status launch(std::unique_ptr<Operation> operation, aclrtStream stream) {
  Operation* const payload = operation.get();
  record_bytes(*payload);
  constexpr uint64_t kNeverInline = ~uint64_t{0};
  const aclError code = driver()->launch(stream, &kind_of(payload->op), &payload, sizeof payload, kNeverInline);
  if (code == ACL_SUCCESS) {
    static_cast<void>(operation.release());
    return {};
  }
  const char* const reason = aclGetRecentErrMsg();
  return {HCCL_E_RUNTIME, text("the task cannot be put on the stream: ", reason == nullptr ? "unknown reason" : reason)};
}

}  // namespace softnpu::hccl
