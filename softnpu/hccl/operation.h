// A call of a collective or message function, as a task of a stream.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "hccl/communicator.h"
#include "hccl/exchange.h"
#include "hccl/extensions.h"

namespace softnpu::hccl {

// Counts and offsets are in elements. Pointers are kernel addresses (runtime/driver.h).
struct Operation {
  Op op = Op::kBarrier;
  std::shared_ptr<Communicator> communicator;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  uint64_t count = 0;  // of the whole, or of this rank's part in reduce-scatter, all-gather, scatter and all-to-all
  HcclDataType type = HCCL_DATA_TYPE_RESERVED;
  HcclReduceOp reduce_op = HCCL_REDUCE_RESERVED;
  uint32_t root = Header::kNoRoot;
  Note note{};
  std::vector<uint64_t> send_counts, send_offsets, receive_counts, receive_offsets;  // by rank; only where ranks differ

  struct Message {
    bool is_send = false;
    uint32_t peer = 0;
    std::byte* data = nullptr;
    uint64_t count = 0;
    HcclDataType type = HCCL_DATA_TYPE_INT8;
    Note note{};
  };
  std::vector<Message> messages;  // of kSend, kReceive and kBatch

  struct Range {
    const std::byte* begin = nullptr;
    size_t bytes = 0;
    bool is_written = false;
  };
  std::vector<Range> ranges;  // the memory that it accesses

  size_t element() const { return element_size(type); }
  // The header without its count.
  Header header(uint64_t sequence) const {
    Header header;
    header.op = op;
    header.type = type;
    header.reduce_op = reduce_op;
    header.root = root;
    header.sequence = sequence;
    std::memcpy(header.note, note.data(), sizeof header.note);
    return header;
  }
};

// Puts the operation on a stream of the communicator's device.
Status launch(std::unique_ptr<Operation> operation, aclrtStream stream);

}  // namespace softnpu::hccl
