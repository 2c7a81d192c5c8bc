// One call of a collective with known data and the result that the model expects.
#pragma once

#include "hccl/model.h"
#include "hccl/world.h"

namespace softnpu::test {

enum class Call {
  kAllReduce,
  kBroadcast,
  kReduceScatter,
  kReduceScatterV,
  kAllGather,
  kAllGatherV,
  kReduce,
  kScatter,
  kAllToAll,
  kAllToAllV,
  kAllToAllVC,
  kSendRecv,
  kBatch,
  kBarrier,
  kCount,
};

struct CallCase {
  Call call = Call::kBarrier;
  DataType type = kDataTypes[0];
  HcclReduceOp op = HCCL_REDUCE_SUM;
  size_t count = 0;
  uint32_t root = 0;
  bool in_place = false;
  uint32_t seed = 1;

  std::string to_text() const;
};

// A call that was launched on a stream. It owns its memory.
class RunningCall {
 public:
  RunningCall(const CallCase& call_case, HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t size);
  // Waits for the stream and compares the result with the model.
  void check();

 private:
  void* device(const Bytes& contents);
  void* blank(size_t bytes);
  // The number of elements that go from one rank to another, in calls where it differs between ranks.
  uint64_t varied(uint32_t from, uint32_t to) const;

  CallCase case_;
  aclrtStream stream_;
  std::vector<DeviceBuffer> buffers_;
  void* result_ = nullptr;
  Bytes expected_;
};

}  // namespace softnpu::test
