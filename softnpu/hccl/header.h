// The header that a rank sends before its data. A rank that calls another operation is found by comparing headers.
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
  HcclDataType type = HCCL_DATA_TYPE_RESERVED;  // RESERVED if the operation has no data type
  HcclReduceOp reduce_op = HCCL_REDUCE_RESERVED;
  uint32_t root = kNoRoot;
  uint32_t unused = 0;
  uint64_t sequence = 0;
  uint64_t count = 0;  // elements that the sender has for the receiver
  char note[48] = {};  // the note of the call, see extensions.h

  static constexpr uint32_t kMagic = 0x6863636c;
  static constexpr uint32_t kNoRoot = ~uint32_t{0};

  // "HcclAllReduce (number 3, 4 elements, float32, sum)"
  std::string to_text() const;
};

// Compares the header of `peer` with the one that rank `own` expects. HCCL_E_PARA names the first field that differs.
Status check_header(const Header& received, const Header& expected, uint32_t peer, uint32_t own);

}  // namespace softnpu::hccl
