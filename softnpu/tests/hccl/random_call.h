// One call of a collective with data that the model knows; the matrix of cases and the fuzzer both consist of these.
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

// Launched on a stream; check() waits for the stream and compares. Memory lives as long as this.
class RunningCall {
 public:
  RunningCall(const CallCase& call_case, HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t size);
  // True if what arrived is what the model says.
  void check();

 private:
  void* device(const Bytes& contents);
  void* blank(size_t bytes);
  // Of messages, all-to-all and the like: how many elements go from one rank to another.
  uint64_t varied(uint32_t from, uint32_t to) const;

  CallCase case_;
  aclrtStream stream_;
  std::vector<DeviceBuffer> buffers_;
  void* result_ = nullptr;
  Bytes expected_;
};

}  // namespace softnpu::test
