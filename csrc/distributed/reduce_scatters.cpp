// Collectives in which each rank gets a part of the reduction.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "distributed/call_notes.h"
#include "distributed/data_types.h"
#include "distributed/launch.h"
#include "distributed/parts.h"
#include "distributed/reduction.h"
#include "distributed/tensor_checks.h"
#include "torch_npu/csrc/distributed/ProcessGroupHCCL.hpp"

namespace c10d_npu {

using namespace torch_npu::distributed;

namespace {

// Parts of `input`, of `counts` elements each, one for each rank.
void reduce_parts(const at::Tensor& result, const at::Tensor& given, const std::vector<uint64_t>& counts,
                  const Reduction& reduction, HcclComm comm, aclrtStream stream) {
  note_call(given, reduction.note());
  const bool widens = reduction.widens(given);
  const at::Tensor input = widens ? given.to(at::kLong) : given;
  const at::Tensor output = widens ? at::empty_like(result, result.options().dtype(at::kLong)) : result;
  const WireType wire = wire_type(input.scalar_type(), "reduce_scatter");
  const auto ranks = static_cast<int64_t>(counts.size());
  const std::vector<uint64_t> wire_counts = scaled(counts, wire.factor), offsets = offsets_of(wire_counts);
  const uint64_t own = count_of(output, wire);
  if (reduction.is_bitwise()) {
    const at::Tensor all = at::empty({ranks, output.numel()}, output.options());
    const std::vector<uint64_t> received(counts.size(), own), received_at = offsets_of(received);
    HCCL_CALL(HcclAlltoAllV, input.data_ptr(), wire_counts.data(), offsets.data(), wire.type, all.data_ptr(), received.data(),
              received_at.data(), wire.type, comm, stream);
    return reduction.combine(all, output.as_strided({output.numel()}, {1}));
  }
  const at::Tensor source = reduction.prepare(input);
  if (are_equal(counts)) {
    HCCL_CALL(HcclReduceScatter, source.data_ptr(), output.data_ptr(), own, wire.type, reduction.op(), comm, stream);
  } else {
    HCCL_CALL(HcclReduceScatterV, source.data_ptr(), wire_counts.data(), offsets.data(), output.data_ptr(), own, wire.type,
              reduction.op(), comm, stream);
  }
  reduction.finish(output, ranks);
  if (widens) result.copy_(output);
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce_scatter(std::vector<at::Tensor>& outputs,
                                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                                const c10d::ReduceScatterOptions& opts) {
  const TensorChecks check("reduce_scatter");
  const at::Tensor output = check.single(outputs, "output");
  check.in_order(output, "output");
  const std::vector<at::Tensor>& list = check.single_list(inputs, "input_list", getSize());
  check.same_type(output, "output", list[0], "input_list");
  check.same_elements(list[static_cast<size_t>(getRank())], "input_list", output, "output");
  const Reduction reduction(opts.reduceOp, output.scalar_type(), "reduce_scatter");
  Call call{c10d::OpType::REDUCE_SCATTER, "hccl:reduce_scatter", list, {output}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    const Parts parts(list, {output});
    reduce_parts(output, parts.filled(), parts.counts(), reduction, comm, stream);
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                      const c10d::ReduceScatterOptions& opts) {
  const TensorChecks check("reduce_scatter_tensor");
  check.dense_pair(input, "input", output, "output");
  check.elements(input, "input", output, "output", getSize());
  check.apart(input, "input", output, "output", getRank() * output.numel());
  const Reduction reduction(opts.reduceOp, output.scalar_type(), "reduce_scatter_tensor");
  const std::vector<uint64_t> counts(static_cast<size_t>(getSize()), static_cast<uint64_t>(output.numel()));
  Call call{c10d::OpType::_REDUCE_SCATTER_BASE, "hccl:_reduce_scatter_base", {input}, {output}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call),
                [&](HcclComm comm, aclrtStream stream) { reduce_parts(output, input, counts, reduction, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce_scatter_uneven(at::Tensor& output, at::Tensor& input,
                                                                       const std::vector<int64_t>& input_splits,
                                                                       const c10d::ReduceScatterOptions& opts) {
  const TensorChecks check("reduce_scatter_tensor_uneven");
  check.dense_pair(input, "input", output, "output");
  const std::vector<uint64_t> counts = check.splits(input, "input", input_splits, getSize());
  check.own_part(output, "output", counts[static_cast<size_t>(getRank())], getRank());
  check.apart(input, "input", output, "output", static_cast<int64_t>(offsets_of(counts)[static_cast<size_t>(getRank())]));
  const Reduction reduction(opts.reduceOp, output.scalar_type(), "reduce_scatter_tensor_uneven");
  Call call{
      c10d::OpType::_REDUCE_SCATTER_BASE, "hccl:reduce_scatter_tensor_uneven", {input}, {output}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call),
                [&](HcclComm comm, aclrtStream stream) { reduce_parts(output, input, counts, reduction, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                                 std::vector<at::Tensor>& inputs,
                                                                                 const c10d::ReduceScatterOptions& opts) {
  const TensorChecks check("reduce_scatter_tensor_coalesced");
  check.as_many(inputs, outputs);
  std::vector<Reduction> reductions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check.dense_pair(inputs[i], "inputs", outputs[i], "outputs");
    check.elements(inputs[i], "inputs", outputs[i], "outputs", getSize());
    check.apart(inputs[i], "inputs", outputs[i], "outputs", getRank() * outputs[i].numel());
    reductions.emplace_back(opts.reduceOp, inputs[i].scalar_type(), "reduce_scatter_tensor_coalesced");
  }
  check.same_device(inputs, "inputs");
  Call call{c10d::OpType::COALESCED, "hccl:reduce_scatter_tensor_coalesced", inputs, outputs, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<uint64_t> counts(static_cast<size_t>(getSize()), static_cast<uint64_t>(outputs[i].numel()));
      reduce_parts(outputs[i], inputs[i], counts, reductions[i], comm, stream);
    }
  });
}

}  // namespace c10d_npu
