// Collectives with the same tensor on every rank: broadcast, all_reduce, reduce.
#include <ATen/ops/empty.h>

#include "distributed/call_notes.h"
#include "distributed/data_types.h"
#include "distributed/launch.h"
#include "distributed/reduction.h"
#include "distributed/tensor_checks.h"
#include "torch_npu/csrc/distributed/ProcessGroupHCCL.hpp"

namespace c10d_npu {

using namespace torch_npu::distributed;

namespace {

// The rows are the tensors of the ranks, in the order of memory.
at::Tensor gathered(const at::Tensor& tensor, int ranks, HcclComm comm, aclrtStream stream) {
  const WireType wire = wire_type(tensor.scalar_type(), "all_gather");
  const at::Tensor all = at::empty({ranks, tensor.numel()}, tensor.options());
  HCCL_CALL(HcclAllGather, tensor.data_ptr(), all.data_ptr(), count_of(tensor, wire), wire.type, comm, stream);
  return all;
}

// A view of all elements in the order of memory.
at::Tensor flat(const at::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

void all_reduce(const at::Tensor& given, const Reduction& reduction, int ranks, HcclComm comm, aclrtStream stream) {
  note_call(given, reduction.note());
  if (reduction.is_bitwise()) return reduction.combine(gathered(given, ranks, comm, stream), flat(given));
  const bool widens = reduction.widens(given);
  const at::Tensor tensor = widens ? given.to(at::kLong) : given;
  const WireType wire = wire_type(tensor.scalar_type(), "all_reduce");
  const at::Tensor input = reduction.prepare(tensor);
  HCCL_CALL(HcclAllReduce, input.data_ptr(), tensor.data_ptr(), count_of(tensor, wire), wire.type, reduction.op(), comm, stream);
  reduction.finish(tensor, ranks);
  if (widens) given.copy_(tensor);
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& opts) {
  const TensorChecks check("broadcast");
  const at::Tensor tensor = check.single(tensors, "tensor");
  check.rank(opts.rootRank, "src", getSize());
  const WireType wire = wire_type(tensor.scalar_type(), "broadcast");
  Call call{c10d::OpType::BROADCAST, "hccl:broadcast", {tensor}, {tensor}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    note_call(tensor);
    HCCL_CALL(HcclBroadcast, tensor.data_ptr(), count_of(tensor, wire), wire.type, static_cast<uint32_t>(opts.rootRank), comm,
              stream);
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& opts) {
  const at::Tensor tensor = TensorChecks("all_reduce").single(tensors, "tensor");
  const Reduction reduction(opts.reduceOp, tensor.scalar_type(), "all_reduce");
  Call call{c10d::OpType::ALLREDUCE, "hccl:all_reduce", {tensor}, {tensor}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call),
                [&](HcclComm comm, aclrtStream stream) { all_reduce(tensor, reduction, getSize(), comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                                     const c10d::AllreduceCoalescedOptions& opts) {
  const TensorChecks check("all_reduce_coalesced");
  TORCH_CHECK_VALUE(!tensors.empty(), "all_reduce_coalesced: argument 'tensors' is empty");
  std::vector<Reduction> reductions;
  for (const at::Tensor& tensor : tensors) {
    check.dense(tensor, "tensors");
    reductions.emplace_back(opts.reduceOp, tensor.scalar_type(), "all_reduce_coalesced");
  }
  check.same_device(tensors, "tensors");
  Call call{c10d::OpType::ALLREDUCE_COALESCED, "hccl:all_reduce_coalesced", tensors, tensors, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    for (size_t i = 0; i < tensors.size(); ++i) all_reduce(tensors[i], reductions[i], getSize(), comm, stream);
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& opts) {
  const TensorChecks check("reduce");
  const at::Tensor tensor = check.single(tensors, "tensor");
  check.rank(opts.rootRank, "dst", getSize());
  const Reduction reduction(opts.reduceOp, tensor.scalar_type(), "reduce");
  const bool is_root = opts.rootRank == getRank();
  Call call{c10d::OpType::REDUCE, "hccl:reduce", {tensor}, {tensor}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    note_call(tensor, reduction.note());
    if (reduction.is_bitwise()) {
      const at::Tensor all = gathered(tensor, getSize(), comm, stream);
      if (is_root) reduction.combine(all, flat(tensor));
      return;
    }
    const bool widens = reduction.widens(tensor);
    const at::Tensor result = widens ? tensor.to(at::kLong) : tensor;
    const at::Tensor input = reduction.prepare(result);
    const WireType wire = wire_type(result.scalar_type(), "reduce");
    HCCL_CALL(HcclReduce, input.data_ptr(), result.data_ptr(), count_of(result, wire), wire.type, reduction.op(),
              static_cast<uint32_t>(opts.rootRank), comm, stream);
    if (!is_root) return;
    reduction.finish(result, getSize());
    if (widens) tensor.copy_(result);
  });
}

}  // namespace c10d_npu
