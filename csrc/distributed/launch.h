// Launches one operation of a process group.
//
//   Call call{.type = c10d::OpType::ALLREDUCE, .title = "hccl:all_reduce", .inputs = {tensor}, .outputs = {tensor}};
//   return launch(group, std::move(call), [&](HcclComm comm, aclrtStream stream) { HCCL_CALL(HcclAllReduce, ...); });
//
// Asynchronous collectives run on the collective stream of the communicator, after the work that the current stream has now.
// Others run on the current stream. Messages have streams of their own: see stream_order.h and communicator.h for the order.
// Tensors that the program may free while a stream of the group uses them are kept until the stream of the call waits for
// the work, or the work is done.
#pragma once

#include <c10/util/FunctionRef.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "distributed/group.h"
#include "distributed/work.h"

namespace torch_npu::distributed {

struct Call {
  c10d::OpType type;
  const char* title;  // "hccl:" and the name of the operation
  std::vector<at::Tensor> inputs, outputs;
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;  // that of the group
  bool is_async = true;
  bool blocks_host = false;                        // wait() of the work returns when it is done
  c10::DeviceIndex device = -1;                    // -1: that of the tensors
  std::vector<std::pair<int, bool>> directions{};  // of messages: rank, and whether it is sent to
  bool is_batch = false;  // several messages, or collectives between startCoalescing() and endCoalescing()

  const char* name() const { return title + 5; }
};

// `body` launches on the given stream, which is current, and may call operators. Throws what `body` throws; nothing is then
// launched, unless `body` launched several calls.
using Body = c10::function_ref<void(HcclComm comm, aclrtStream stream)>;
c10::intrusive_ptr<c10d::Work> launch(const std::shared_ptr<Group>& group, Call call, Body body);

}  // namespace torch_npu::distributed
