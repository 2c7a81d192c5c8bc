// The functions of hccl.h that put a collective on a stream. They check the arguments and convert counts to lists by rank.
#include <limits>
#include <numeric>

#include "hccl/communicator.h"
#include "hccl/library.h"
#include "hccl/operation.h"
#include "hccl_api.h"

namespace softnpu::hccl::api {
namespace {

// Checks and collects the arguments of one call. launch() returns the first error.
class Builder {
 public:
  Builder(Op op, const CommunicatorRef& communicator) : operation_(std::make_unique<Operation>()) {
    operation_->op = op;
    operation_->communicator = communicator;
    operation_->note = current_note();
    int32_t device = -1;
    if (aclrtGetDevice(&device) != ACL_SUCCESS) {
      fail(HCCL_E_RUNTIME, "the calling thread has no device; call aclrtSetDevice first");
    } else if (device != communicator->device()) {
      fail(HCCL_E_PARA, text("the communicator belongs to device ", communicator->device(), ", but the current device is ",
                             device, "; call aclrtSetDevice"));
    }
  }

  Operation& operation() { return *operation_; }
  uint32_t size() const { return operation_->communicator->size(); }
  uint32_t rank() const { return operation_->communicator->rank(); }

  Builder& type(const char* name, HcclDataType type) {
    if (element_size(type) == 0) fail(HCCL_E_PARA, text("argument '", name, "' (", int(type), ") is not an HcclDataType"));
    operation_->type = type;
    return *this;
  }

  Builder& reduction(HcclReduceOp op) {
    operation_->reduce_op = op;
    if (find_reduce(HCCL_DATA_TYPE_INT8, op) == nullptr) {
      fail(HCCL_E_PARA, text("argument 'op' (", int(op), ") is not an HcclReduceOp; allowed: sum, prod, max and min (0 to 3)"));
    } else if (find_reduce(operation_->type, op) == nullptr) {
      fail(HCCL_E_NOT_SUPPORT, text("data of type ", type_name(operation_->type), " can be moved but not reduced"));
    }
    return *this;
  }

  Builder& root(const char* name, uint32_t root) {
    if (root >= size()) fail(HCCL_E_PARA, text("argument '", name, "' is ", root, "; allowed: 0 to ", size() - 1));
    operation_->root = root;
    return *this;
  }

  // Checks that `pointer` has `parts` times `count` elements of the communicator's device. Returns the kernel address.
  std::byte* memory(const char* name, const void* pointer, uint64_t count, HcclDataType type, bool is_written,
                    uint64_t parts = 1) {
    const size_t element = element_size(type);
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (!status_.ok() || count == 0) return nullptr;
    if (count > kMost / element / parts) {
      fail(HCCL_E_PARA, text("argument '", name, "' would have ", count, " elements, more than any memory"));
      return nullptr;
    }
    const size_t bytes = count * element * parts;
    if (pointer == nullptr) {
      fail(HCCL_E_PTR, text("argument '", name, "' is null"));
      return nullptr;
    }
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address % element != 0 && element <= 8) {
      fail(HCCL_E_PARA, text("argument '", name, "' (", pointer, ") is not aligned to its elements of ", element, " bytes"));
      return nullptr;
    }
    if (address < driver()->device_begin || address >= driver()->device_end) {
      fail(HCCL_E_PARA, text("argument '", name, "' (", pointer, ") is not device memory; allocate it with aclrtMalloc"));
      return nullptr;
    }
    void* alias = nullptr;
    if (driver()->alias(pointer, bytes, &alias) != ACL_SUCCESS) {
      const char* const reason = aclGetRecentErrMsg();
      fail(HCCL_E_PARA, text("argument '", name, "' with ", bytes, " bytes: ", reason == nullptr ? "" : reason));
      return nullptr;
    }
    aclrtPtrAttributes attributes{};
    const bool is_known = aclrtPointerGetAttributes(pointer, &attributes) == ACL_SUCCESS;
    const int32_t device = operation_->communicator->device();
    if (is_known && static_cast<int32_t>(attributes.location.id) != device) {
      fail(HCCL_E_PARA, text("argument '", name, "' is memory of device ", attributes.location.id,
                             ", but the communicator belongs to device ", device));
      return nullptr;
    }
    auto* const begin = static_cast<std::byte*>(alias);
    operation_->ranges.push_back({begin, bytes, is_written});
    return begin;
  }

  // Stores counts and offsets by rank, and checks the memory that they cover.
  std::byte* parts(const char* name, const void* pointer, const void* counts, const void* offsets, HcclDataType type,
                   bool is_written, std::vector<uint64_t>* count_list, std::vector<uint64_t>* offset_list) {
    const auto* const counted = static_cast<const uint64_t*>(counts);
    const auto* const placed = static_cast<const uint64_t*>(offsets);
    count_list->assign(counted, counted + size());
    offset_list->assign(placed, placed + size());
    uint64_t end = 0;
    for (uint32_t rank = 0; rank < size(); ++rank) {
      constexpr uint64_t kMost = uint64_t{1} << 58;
      if (counted[rank] > kMost || placed[rank] > kMost) {
        fail(HCCL_E_PARA, text("argument '", name, "' would have ", counted[rank], " elements at offset ", placed[rank],
                               " for rank ", rank, ", more than any memory"));
        return nullptr;
      }
      if (counted[rank] > 0) end = std::max(end, placed[rank] + counted[rank]);
    }
    return memory(name, pointer, end, type, is_written);
  }

  void fail(HcclResult code, std::string message) {
    if (status_.ok()) status_ = {code, std::move(message)};
  }

  Status launch(aclrtStream stream) {
    if (!status_.ok()) return std::move(status_);
    return hccl::launch(std::move(operation_), stream);
  }

 private:
  std::unique_ptr<Operation> operation_;
  Status status_;
};

// The offsets of parts that follow each other without gaps.
std::vector<uint64_t> running_sums(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> sums(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), sums.begin(), uint64_t{0});
  return sums;
}

Status same_types(HcclDataType send, HcclDataType receive) {
  if (send == receive) return {};
  return {HCCL_E_PARA, text("arguments 'sendType' (", type_name(send), ") and 'recvType' (", type_name(receive), ") differ")};
}

}  // namespace

Status HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                     const CommunicatorRef& comm, aclrtStream stream) {
  Builder call(Op::kAllReduce, comm);
  call.type("dataType", dataType).reduction(op);
  Operation& operation = call.operation();
  operation.count = count;
  operation.send = call.memory("sendBuf", sendBuf, count, dataType, false);
  operation.receive = call.memory("recvBuf", recvBuf, count, dataType, true);
  return call.launch(stream);
}

Status HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, const CommunicatorRef& comm,
                     aclrtStream stream) {
  Builder call(Op::kBroadcast, comm);
  call.type("dataType", dataType).root("root", root);
  call.operation().count = count;
  call.operation().receive = call.memory("buf", buf, count, dataType, root != call.rank());
  return call.launch(stream);
}

Status HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                         const CommunicatorRef& comm, aclrtStream stream) {
  Builder call(Op::kReduceScatter, comm);
  call.type("dataType", dataType).reduction(op);
  Operation& operation = call.operation();
  operation.count = recvCount;
  operation.send = call.memory("sendBuf", sendBuf, recvCount, dataType, false, call.size());
  operation.receive = call.memory("recvBuf", recvBuf, recvCount, dataType, true);
  return call.launch(stream);
}

Status HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf, uint64_t recvCount,
                          HcclDataType dataType, HcclReduceOp op, const CommunicatorRef& comm, aclrtStream stream) {
  Builder call(Op::kReduceScatterV, comm);
  call.type("dataType", dataType).reduction(op);
  Operation& operation = call.operation();
  operation.count = recvCount;
  operation.send =
      call.parts("sendBuf", sendBuf, sendCounts, sendDispls, dataType, false, &operation.send_counts, &operation.send_offsets);
  operation.receive = call.memory("recvBuf", recvBuf, recvCount, dataType, true);
  if (operation.send_counts[call.rank()] != recvCount) {
    call.fail(HCCL_E_PARA, text("argument 'recvCount' is ", recvCount, ", but 'sendCounts' has ",
                                operation.send_counts[call.rank()], " for this rank (", call.rank(), ")"));
  }
  return call.launch(stream);
}

Status HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, const CommunicatorRef& comm,
                     aclrtStream stream) {
  Builder call(Op::kAllGather, comm);
  call.type("dataType", dataType);
  Operation& operation = call.operation();
  operation.count = sendCount;
  operation.send = call.memory("sendBuf", sendBuf, sendCount, dataType, false);
  operation.receive = call.memory("recvBuf", recvBuf, sendCount, dataType, true, call.size());
  return call.launch(stream);
}

Status HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts, const void* recvDispls,
                      HcclDataType dataType, const CommunicatorRef& comm, aclrtStream stream) {
  Builder call(Op::kAllGatherV, comm);
  call.type("dataType", dataType);
  Operation& operation = call.operation();
  operation.count = sendCount;
  operation.send = call.memory("sendBuf", sendBuf, sendCount, dataType, false);
  operation.receive = call.parts("recvBuf", recvBuf, recvCounts, recvDispls, dataType, true, &operation.receive_counts,
                                 &operation.receive_offsets);
  if (operation.receive_counts[call.rank()] != sendCount) {
    call.fail(HCCL_E_PARA, text("argument 'sendCount' is ", sendCount, ", but 'recvCounts' has ",
                                operation.receive_counts[call.rank()], " for this rank (", call.rank(), ")"));
  }
  return call.launch(stream);
}

Status HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, uint32_t root,
                  const CommunicatorRef& comm, aclrtStream stream) {
  Builder call(Op::kReduce, comm);
  call.type("dataType", dataType).reduction(op).root("root", root);
  Operation& operation = call.operation();
  operation.count = count;
  operation.send = call.memory("sendBuf", sendBuf, count, dataType, false);
  if (root == call.rank()) operation.receive = call.memory("recvBuf", recvBuf, count, dataType, true);
  return call.launch(stream);
}

Status HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                   const CommunicatorRef& comm, aclrtStream stream) {
  Builder call(Op::kScatter, comm);
  call.type("dataType", dataType).root("root", root);
  Operation& operation = call.operation();
  operation.count = recvCount;
  if (root == call.rank()) operation.send = call.memory("sendBuf", sendBuf, recvCount, dataType, false, call.size());
  operation.receive = call.memory("recvBuf", recvBuf, recvCount, dataType, true);
  return call.launch(stream);
}

Status HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf, uint64_t recvCount,
                    HcclDataType recvType, const CommunicatorRef& comm, aclrtStream stream) {
  SOFTNPU_RETURN_IF_ERROR(same_types(sendType, recvType));
  if (sendCount != recvCount)
    return {HCCL_E_PARA, text("arguments 'sendCount' (", sendCount, ") and 'recvCount' (", recvCount, ") differ")};
  Builder call(Op::kAllToAll, comm);
  call.type("sendType", sendType);
  Operation& operation = call.operation();
  operation.count = sendCount;
  operation.send = call.memory("sendBuf", sendBuf, sendCount, sendType, false, call.size());
  operation.receive = call.memory("recvBuf", recvBuf, recvCount, recvType, true, call.size());
  operation.send_counts.assign(call.size(), sendCount);
  operation.receive_counts = operation.send_counts;
  operation.send_offsets = operation.receive_offsets = running_sums(operation.send_counts);
  return call.launch(stream);
}

Status HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType, const void* recvBuf,
                     const void* recvCounts, const void* rdispls, HcclDataType recvType, const CommunicatorRef& comm,
                     aclrtStream stream) {
  SOFTNPU_RETURN_IF_ERROR(same_types(sendType, recvType));
  Builder call(Op::kAllToAllV, comm);
  call.type("sendType", sendType);
  Operation& operation = call.operation();
  operation.send =
      call.parts("sendBuf", sendBuf, sendCounts, sdispls, sendType, false, &operation.send_counts, &operation.send_offsets);
  operation.receive =
      call.parts("recvBuf", recvBuf, recvCounts, rdispls, recvType, true, &operation.receive_counts, &operation.receive_offsets);
  const uint32_t own = call.rank();
  if (operation.send_counts[own] != operation.receive_counts[own]) {
    call.fail(HCCL_E_PARA, text("this rank (", own, ") sends ", operation.send_counts[own], " elements to itself and expects ",
                                operation.receive_counts[own]));
  }
  return call.launch(stream);
}

// Row r of the matrix has the counts that rank r sends. Parts follow each other without gaps.
Status HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
                      HcclDataType recvType, const CommunicatorRef& comm, aclrtStream stream) {
  SOFTNPU_RETURN_IF_ERROR(same_types(sendType, recvType));
  Builder call(Op::kAllToAllVC, comm);
  call.type("sendType", sendType);
  const auto* const matrix = static_cast<const uint64_t*>(sendCountMatrix);
  const uint32_t size = call.size(), own = call.rank();
  std::vector<uint64_t> send_counts(size), receive_counts(size);
  for (uint32_t peer = 0; peer < size; ++peer) {
    send_counts[peer] = matrix[own * size + peer];
    receive_counts[peer] = matrix[peer * size + own];
  }
  Operation& operation = call.operation();
  const std::vector<uint64_t> send_offsets = running_sums(send_counts), receive_offsets = running_sums(receive_counts);
  operation.send = call.parts("sendBuf", sendBuf, send_counts.data(), send_offsets.data(), sendType, false,
                              &operation.send_counts, &operation.send_offsets);
  operation.receive = call.parts("recvBuf", recvBuf, receive_counts.data(), receive_offsets.data(), recvType, true,
                                 &operation.receive_counts, &operation.receive_offsets);
  return call.launch(stream);
}

namespace {

void add_message(Builder& call, const char* buffer_name, const char* rank_name, bool is_send, void* buffer, uint64_t count,
                 HcclDataType type, uint32_t peer, const Note& note) {
  if (element_size(type) == 0) {
    call.fail(HCCL_E_PARA, text("argument 'dataType' (", int(type), ") is not an HcclDataType"));
    return;
  }
  if (peer >= call.size()) {
    call.fail(HCCL_E_PARA, text("argument '", rank_name, "' is ", peer, "; allowed: 0 to ", call.size() - 1));
    return;
  }
  std::byte* const data = call.memory(buffer_name, buffer, count, type, !is_send);
  call.operation().messages.push_back({is_send, peer, data, count, type, note});
}

}  // namespace

Status HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, const CommunicatorRef& comm,
                aclrtStream stream) {
  Builder call(Op::kSend, comm);
  add_message(call, "sendBuf", "destRank", true, sendBuf, count, dataType, destRank, current_note());
  if (destRank == call.rank()) call.fail(HCCL_E_PARA, text("argument 'destRank' is the caller's own rank (", destRank, ")"));
  return call.launch(stream);
}

Status HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, const CommunicatorRef& comm,
                aclrtStream stream) {
  Builder call(Op::kReceive, comm);
  add_message(call, "recvBuf", "srcRank", false, recvBuf, count, dataType, srcRank, current_note());
  if (srcRank == call.rank()) call.fail(HCCL_E_PARA, text("argument 'srcRank' is the caller's own rank (", srcRank, ")"));
  return call.launch(stream);
}

Status HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, const CommunicatorRef& comm, aclrtStream stream) {
  if (itemNum > 0 && sendRecvInfo == nullptr)
    return {HCCL_E_PTR, "argument 'sendRecvInfo' is null; allowed only if 'itemNum' is 0"};
  Builder call(Op::kBatch, comm);
  std::vector<std::pair<uint64_t, HcclDataType>> sent, received;  // to and from the own rank
  for (uint32_t index = 0; index < itemNum; ++index) {
    const HcclSendRecvItem& item = sendRecvInfo[index];
    if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV) {
      call.fail(HCCL_E_PARA, text("item ", index, " of argument 'sendRecvInfo' has sendRecvType ", int(item.sendRecvType),
                                  "; allowed: HCCL_SEND (0) and HCCL_RECV (1)"));
    }
    const bool is_send = item.sendRecvType == HCCL_SEND;
    add_message(call, "sendRecvInfo.buf", "sendRecvInfo.remoteRank", is_send, item.buf, item.count, item.dataType,
                item.remoteRank, current_note(index, itemNum));
    if (item.remoteRank == call.rank()) (is_send ? sent : received).emplace_back(item.count, item.dataType);
  }
  if (sent != received)
    call.fail(HCCL_E_PARA,
              "the sends of this rank to itself do not match its receives from itself in number, count or data type");
  return call.launch(stream);
}

Status HcclBarrier(const CommunicatorRef& comm, aclrtStream stream) { return Builder(Op::kBarrier, comm).launch(stream); }

}  // namespace softnpu::hccl::api
