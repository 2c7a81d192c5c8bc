// What a rank says in front of its part of a collective or of a message, so that ranks that do different things notice it.
#pragma once

#include <cstdint>
#include <string>

#include "hccl/errors.h"

namespace softnpu::hccl {

enum class Op : uint32_t {
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
  kSend,
  kReceive,
  kBatch,
  kBarrier,
  kCount,
};

// "HcclAllReduce"
const char* function_name(Op op);

struct Header {
  uint32_t magic = kMagic;
  Op op = Op::kBarrier;
  HcclDataType type = HCCL_DATA_TYPE_RESERVED;  // RESERVED where the operation has none, as:
  HcclReduceOp reduce_op = HCCL_REDUCE_RESERVED;
  uint32_t root = kNoRoot;
  uint32_t unused = 0;
  uint64_t sequence = 0;
  uint64_t count = 0;  // elements that the writer has for the reader

  static constexpr uint32_t kMagic = 0x6863636c;
  static constexpr uint32_t kNoRoot = ~uint32_t{0};

  // "HcclAllReduce (number 3, 4 elements, float32, sum)"
  std::string to_text() const;
};

// Compares what `peer` sent with what rank `own` expects, which is its own header with the count that it expects.
Status check_header(const Header& received, const Header& expected, uint32_t peer, uint32_t own);

}  // namespace softnpu::hccl
