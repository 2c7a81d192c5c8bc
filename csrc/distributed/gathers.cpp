// Collectives that move different parts to different ranks: gathers, scatters, and all_to_all.
#include <ATen/ops/empty.h>

#include "distributed/call_notes.h"
#include "distributed/data_types.h"
#include "distributed/launch.h"
#include "distributed/parts.h"
#include "distributed/tensor_checks.h"
#include "torch_npu/csrc/distributed/ProcessGroupHCCL.hpp"

namespace c10d_npu {

using namespace torch_npu::distributed;

namespace {

// `counts` are elements of `output` for each rank.
void all_gather(const at::Tensor& output, const at::Tensor& input, const std::vector<uint64_t>& counts, HcclComm comm,
                aclrtStream stream) {
  const WireType wire = wire_type(input.scalar_type(), "all_gather");
  note_call(input);
  if (are_equal(counts)) {
    HCCL_CALL(HcclAllGather, input.data_ptr(), output.data_ptr(), count_of(input, wire), wire.type, comm, stream);
    return;
  }
  const std::vector<uint64_t> wire_counts = scaled(counts, wire.factor), offsets = offsets_of(wire_counts);
  HCCL_CALL(HcclAllGatherV, input.data_ptr(), count_of(input, wire), output.data_ptr(), wire_counts.data(), offsets.data(),
            wire.type, comm, stream);
}

void all_to_all(const at::Tensor& output, const std::vector<uint64_t>& output_counts, const at::Tensor& input,
                const std::vector<uint64_t>& input_counts, HcclComm comm, aclrtStream stream) {
  const WireType wire = wire_type(input.scalar_type(), "all_to_all");
  note_call(input);
  const std::vector<uint64_t> sent = scaled(input_counts, wire.factor), received = scaled(output_counts, wire.factor);
  const std::vector<uint64_t> sent_at = offsets_of(sent), received_at = offsets_of(received);
  HCCL_CALL(HcclAlltoAllV, input.data_ptr(), sent.data(), sent_at.data(), wire.type, output.data_ptr(), received.data(),
            received_at.data(), wire.type, comm, stream);
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                           std::vector<at::Tensor>& inputs, const c10d::AllgatherOptions& opts) {
  const TensorChecks check("all_gather");
  const at::Tensor input = check.single(inputs, "tensor").contiguous();
  const std::vector<at::Tensor>& list = check.single_list(outputs, "tensor_list", getSize());
  check.writable(list, "tensor_list");
  check.same_type(input, "tensor", list[0], "tensor_list");
  check.same_elements(list[static_cast<size_t>(getRank())], "tensor_list", input, "tensor");
  wire_type(input.scalar_type(), "all_gather");
  Call call{c10d::OpType::ALLGATHER, "hccl:all_gather", {input}, list, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    const Parts parts(list, {input});
    const at::Tensor all = parts.memory();
    all_gather(all, input, parts.counts(), comm, stream);
    parts.copy_from(all);
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::AllgatherOptions& opts) {
  const TensorChecks check("all_gather_into_tensor");
  check.dense_pair(input, "input_tensor", output, "output_tensor");
  check.elements(output, "output_tensor", input, "input_tensor", getSize());
  check.apart(output, "output_tensor", input, "input_tensor", getRank() * input.numel());
  const WireType wire = wire_type(input.scalar_type(), "all_gather_into_tensor");
  Call call{c10d::OpType::_ALLGATHER_BASE, "hccl:_all_gather_base", {input}, {output}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    note_call(input);
    HCCL_CALL(HcclAllGather, input.data_ptr(), output.data_ptr(), count_of(input, wire), wire.type, comm, stream);
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::all_gather_uneven(at::Tensor& output, at::Tensor& input,
                                                                   const std::vector<int64_t>& output_splits,
                                                                   const c10d::AllgatherOptions& opts) {
  const TensorChecks check("all_gather_into_tensor_uneven");
  check.dense_pair(input, "input", output, "output");
  const std::vector<uint64_t> counts = check.splits(output, "output", output_splits, getSize());
  check.own_part(input, "input", counts[static_cast<size_t>(getRank())], getRank());
  check.apart(output, "output", input, "input", static_cast<int64_t>(offsets_of(counts)[static_cast<size_t>(getRank())]));
  wire_type(input.scalar_type(), "all_gather_into_tensor_uneven");
  Call call{c10d::OpType::_ALLGATHER_BASE, "hccl:all_gather_into_tensor_uneven", {input}, {output}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call),
                [&](HcclComm comm, aclrtStream stream) { all_gather(output, input, counts, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                                     std::vector<at::Tensor>& inputs,
                                                                     const c10d::AllgatherOptions& opts) {
  // outputs[r][i] is input i of rank r, as with Gloo.
  const TensorChecks check("all_gather_coalesced");
  TORCH_CHECK_VALUE(!inputs.empty(), "all_gather_coalesced: argument 'input_tensor_list' is empty");
  const auto ranks = static_cast<size_t>(getSize());
  TORCH_CHECK_VALUE(outputs.size() == ranks, "all_gather_coalesced: argument 'output_tensor_lists' has ", outputs.size(),
                    " lists, but the group has ", ranks, " ranks");
  std::vector<std::vector<at::Tensor>> by_input(inputs.size());
  std::vector<at::Tensor> all_outputs;
  for (const std::vector<at::Tensor>& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "all_gather_coalesced: a list of argument 'output_tensor_lists' has ",
                      list.size(), " tensors, but 'input_tensor_list' has ", inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) by_input[i].push_back(list[i]);
    all_outputs.insert(all_outputs.end(), list.begin(), list.end());
  }
  std::vector<at::Tensor> sources;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check.on_npu(inputs[i], "input_tensor_list");
    check.list(by_input[i], "output_tensor_lists", getSize());
    check.writable(by_input[i], "output_tensor_lists");
    check.same_type(inputs[i], "input_tensor_list", by_input[i][0], "output_tensor_lists");
    check.same_elements(by_input[i][static_cast<size_t>(getRank())], "output_tensor_lists", inputs[i], "input_tensor_list");
    wire_type(inputs[i].scalar_type(), "all_gather_coalesced");
    sources.push_back(inputs[i].contiguous());
  }
  check.same_device(inputs, "input_tensor_list");
  Call call{c10d::OpType::ALLGATHER_COALESCED, "hccl:all_gather_coalesced", sources, all_outputs, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    for (size_t i = 0; i < sources.size(); ++i) {
      const Parts parts(by_input[i], {sources[i]});
      const at::Tensor all = parts.memory();
      all_gather(all, sources[i], parts.counts(), comm, stream);
      parts.copy_from(all);
    }
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                                 std::vector<at::Tensor>& inputs,
                                                                                 const c10d::AllgatherOptions& opts) {
  const TensorChecks check("all_gather_into_tensor_coalesced");
  check.as_many(inputs, outputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check.dense_pair(inputs[i], "inputs", outputs[i], "outputs");
    check.elements(outputs[i], "outputs", inputs[i], "inputs", getSize());
    check.apart(outputs[i], "outputs", inputs[i], "inputs", getRank() * inputs[i].numel());
    wire_type(inputs[i].scalar_type(), "all_gather_into_tensor_coalesced");
  }
  check.same_device(inputs, "inputs");
  Call call{c10d::OpType::COALESCED, "hccl:all_gather_into_tensor_coalesced", inputs, outputs, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const WireType wire = wire_type(inputs[i].scalar_type(), "all_gather_into_tensor_coalesced");
      note_call(inputs[i]);
      HCCL_CALL(HcclAllGather, inputs[i].data_ptr(), outputs[i].data_ptr(), count_of(inputs[i], wire), wire.type, comm, stream);
    }
  });
}

// libhccl has no gather: all_to_all in which only the root receives.
c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                                        std::vector<at::Tensor>& inputs, const c10d::GatherOptions& opts) {
  const TensorChecks check("gather");
  const at::Tensor input = check.single(inputs, "tensor").contiguous();
  check.rank(opts.rootRank, "dst", getSize());
  wire_type(input.scalar_type(), "gather");
  const bool is_root = opts.rootRank == getRank();
  std::vector<at::Tensor> list;
  if (is_root) {
    list = check.single_list(outputs, "gather_list", getSize());
    check.writable(list, "gather_list");
    check.same_type(input, "tensor", list[0], "gather_list");
    check.same_elements(list[static_cast<size_t>(getRank())], "gather_list", input, "tensor");
  } else {
    TORCH_CHECK_VALUE(outputs.empty(), "gather: argument 'gather_list' must be empty on ranks other than dst (", opts.rootRank,
                      ")");
  }
  Call call{c10d::OpType::GATHER, "hccl:gather", {input}, list, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    std::vector<uint64_t> sent(static_cast<size_t>(getSize()), 0), received = sent;
    sent[static_cast<size_t>(opts.rootRank)] = static_cast<uint64_t>(input.numel());
    if (!is_root) return all_to_all(input, received, input, sent, comm, stream);
    const Parts parts(list, {input});
    const at::Tensor all = parts.memory();
    all_to_all(all, parts.counts(), input, sent, comm, stream);
    parts.copy_from(all);
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::scatter(std::vector<at::Tensor>& outputs,
                                                         std::vector<std::vector<at::Tensor>>& inputs,
                                                         const c10d::ScatterOptions& opts) {
  const TensorChecks check("scatter");
  const at::Tensor output = check.single(outputs, "tensor");
  check.in_order(output, "tensor");
  check.rank(opts.rootRank, "src", getSize());
  const WireType wire = wire_type(output.scalar_type(), "scatter");
  const bool is_root = opts.rootRank == getRank();
  std::vector<at::Tensor> list;
  if (is_root) {
    list = check.single_list(inputs, "scatter_list", getSize());
    check.same_type(output, "tensor", list[0], "scatter_list");
    for (const at::Tensor& input : list) check.same_elements(input, "scatter_list", output, "tensor");
  } else {
    TORCH_CHECK_VALUE(inputs.empty(), "scatter: argument 'scatter_list' must be empty on ranks other than src (", opts.rootRank,
                      ")");
  }
  Call call{c10d::OpType::SCATTER, "hccl:scatter", list, {output}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    at::Tensor all = output;
    if (is_root) all = Parts(list, {output}).filled();
    note_call(output);
    HCCL_CALL(HcclScatter, all.data_ptr(), output.data_ptr(), count_of(output, wire), wire.type,
              static_cast<uint32_t>(opts.rootRank), comm, stream);
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                               std::vector<int64_t>& output_splits,
                                                               std::vector<int64_t>& input_splits,
                                                               const c10d::AllToAllOptions& opts) {
  const TensorChecks check("all_to_all_single");
  check.dense_pair(input, "input", output, "output");
  wire_type(input.scalar_type(), "all_to_all_single");
  const std::vector<uint64_t> sent = check.splits(input, "input", input_splits, getSize());
  const std::vector<uint64_t> received = check.splits(output, "output", output_splits, getSize());
  check.apart(input, "input", output, "output");
  Call call{c10d::OpType::ALLTOALL_BASE, "hccl:all_to_all", {input}, {output}, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call),
                [&](HcclComm comm, aclrtStream stream) { all_to_all(output, received, input, sent, comm, stream); });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                                          const c10d::AllToAllOptions& opts) {
  const TensorChecks check("all_to_all");
  check.list(inputs, "input_tensor_list", getSize());
  check.list(outputs, "output_tensor_list", getSize());
  check.writable(outputs, "output_tensor_list");
  check.same_type(inputs[0], "input_tensor_list", outputs[0], "output_tensor_list");
  wire_type(inputs[0].scalar_type(), "all_to_all");
  Call call{c10d::OpType::ALLTOALL, "hccl:all_to_all", inputs, outputs, opts.timeout, opts.asyncOp};
  return launch(group_, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    const Parts received(outputs, inputs), sent(inputs, {});
    const at::Tensor all = received.memory();
    all_to_all(all, received.counts(), sent.filled(), sent.counts(), comm, stream);
    received.copy_from(all);
  });
}

}  // namespace c10d_npu
