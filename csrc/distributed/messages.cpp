// Messages between two ranks, and batches of them.
#include <algorithm>

#include "distributed/call_notes.h"
#include "distributed/data_types.h"
#include "distributed/launch.h"
#include "distributed/tensor_checks.h"
#include "torch_npu/csrc/distributed/ProcessGroupHCCL.hpp"

namespace c10d_npu {

using namespace torch_npu;
using namespace torch_npu::distributed;

namespace {

// Checks a message, and describes it for libhccl.
HcclSendRecvItem item_of(const Group& group, const char* op, const at::Tensor& tensor, int64_t peer, bool is_send) {
  const TensorChecks check(op);
  check.dense(tensor, "tensor");
  check.rank(peer, is_send ? "dst" : "src", group.size());
  const WireType wire = wire_type(tensor.scalar_type(), op);
  return {is_send ? HCCL_SEND : HCCL_RECV, tensor.data_ptr(), count_of(tensor, wire), wire.type, static_cast<uint32_t>(peer)};
}

void add_to_batch(Batch& batch, const HcclSendRecvItem& item, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(batch.device < 0 || batch.device == tensor.device().index(),
                    "the tensors of a batch of messages are on npu:", static_cast<int>(batch.device), " and ", tensor.device(),
                    "; they must be on one device");
  const bool is_send = item.sendRecvType == HCCL_SEND;
  batch.device = tensor.device().index();
  batch.items.push_back(item);
  batch.tensors.push_back(tensor);
  (is_send ? batch.sent : batch.received).push_back(tensor);
  const std::pair<int, bool> direction{static_cast<int>(item.remoteRank), is_send};
  if (std::find(batch.directions.begin(), batch.directions.end(), direction) == batch.directions.end()) {
    batch.directions.push_back(direction);
  }
}

c10::intrusive_ptr<c10d::Work> launch_batch(const std::shared_ptr<Group>& group, Batch batch) {
  Call call{.type = c10d::OpType::COALESCED,
            .title = "hccl:coalesced",
            .inputs = std::move(batch.sent),
            .outputs = std::move(batch.received),
            .device = batch.device,
            .directions = std::move(batch.directions),
            .is_batch = true};
  return launch(group, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    if (batch.items.empty()) return;
    for (const at::Tensor& tensor : batch.tensors) note_call(tensor);
    HCCL_CALL(HcclBatchSendRecv, batch.items.data(), static_cast<uint32_t>(batch.items.size()), comm, stream);
  });
}

c10::intrusive_ptr<c10d::Work> launch_message(const std::shared_ptr<Group>& group, const std::vector<at::Tensor>& tensors,
                                              int peer, bool is_send) {
  const char* const op = is_send ? "send" : "recv";
  const at::Tensor tensor = TensorChecks(op).single(tensors, "tensor");
  const HcclSendRecvItem item = item_of(*group, op, tensor, peer, is_send);
  const c10d::OpType type = is_send ? c10d::OpType::SEND : c10d::OpType::RECV;
  {
    const std::lock_guard lock(group->launch_lock());
    if (group->batch().has_value()) {
      add_to_batch(*group->batch(), item, tensor);
      return group->batch()->works.emplace_back(c10::make_intrusive<BatchedWork>(group->rank(), type));
    }
  }
  TORCH_CHECK_VALUE(peer != group->rank(), op, ": argument '", is_send ? "dst" : "src", "' is the rank of this process (", peer,
                    "); send a message to itself with batch_isend_irecv");
  Call call{
      .type = type, .title = is_send ? "hccl:send" : "hccl:recv", .inputs = {}, .outputs = {}, .directions = {{peer, is_send}}};
  (is_send ? call.inputs : call.outputs) = {tensor};
  return launch(group, std::move(call), [&](HcclComm comm, aclrtStream stream) {
    note_call(tensor);
    if (is_send) {
      HCCL_CALL(HcclSend, item.buf, item.count, item.dataType, item.remoteRank, comm, stream);
    } else {
      HCCL_CALL(HcclRecv, item.buf, item.count, item.dataType, item.remoteRank, comm, stream);
    }
  });
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::send(std::vector<at::Tensor>& tensors, int dst_rank, int) {
  return launch_message(group_, tensors, dst_rank, true);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::recv(std::vector<at::Tensor>& tensors, int src_rank, int) {
  return launch_message(group_, tensors, src_rank, false);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::recvAnysource(std::vector<at::Tensor>&, int) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "recv: the backend hccl cannot receive from any rank; give src, or receive on the CPU with a group of "
      "backend=\"cpu:gloo,npu:hccl\"");
}

void ProcessGroupHCCL::startCoalescing() {
  const std::lock_guard lock(group_->launch_lock());
  TORCH_CHECK(!group_->batch().has_value(), "startCoalescing: the group is coalescing already; call endCoalescing first");
  group_->batch().emplace();
}

void ProcessGroupHCCL::dropCoalescing() {
  const std::lock_guard lock(group_->launch_lock());
  group_->batch().reset();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::endCoalescing() {
  Batch batch;
  {
    const std::lock_guard lock(group_->launch_lock());
    TORCH_CHECK(group_->batch().has_value(), "endCoalescing: startCoalescing was not called");
    batch = *std::exchange(group_->batch(), std::nullopt);
  }
  if (batch.items.empty() && !batch.has_collectives) return nullptr;
  if (batch.has_collectives && !batch.items.empty()) {
    // The work of the collectives: the batch then starts after them.
    const c10::DeviceIndex device = batch.device;
    Batch collectives;
    collectives.device = device;
    launch_batch(group_, std::move(collectives))->wait();
  }
  const std::vector<c10::intrusive_ptr<BatchedWork>> works = std::move(batch.works);
  const c10::intrusive_ptr<c10d::Work> work = launch_batch(group_, std::move(batch));
  for (const c10::intrusive_ptr<BatchedWork>& each : works) each->launched_with(work);
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::batch_isend_irecv(std::vector<std::string>& op_type,
                                                                   std::vector<at::Tensor>& tensors,
                                                                   std::vector<int64_t> remote_rank_list) {
  TORCH_CHECK_VALUE(!tensors.empty() && op_type.size() == tensors.size() && remote_rank_list.size() == tensors.size(),
                    "batch_isend_irecv: there are ", op_type.size(), " operations, ", tensors.size(), " tensors and ",
                    remote_rank_list.size(), " ranks; give as many of each, and at least one");
  Batch batch;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_send = op_type[i] == "isend";
    TORCH_CHECK_VALUE(is_send || op_type[i] == "irecv", "batch_isend_irecv: an operation is '", op_type[i],
                      "'; the operations are isend and irecv");
    add_to_batch(batch, item_of(*group_, "batch_isend_irecv", tensors[i], remote_rank_list[i], is_send), tensors[i]);
  }
  return launch_batch(group_, std::move(batch));
}

}  // namespace c10d_npu
