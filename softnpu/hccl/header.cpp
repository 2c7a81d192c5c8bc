#include "hccl/header.h"

#include <cstring>

#include "hccl/reduce.h"

namespace softnpu::hccl {

const char* function_name(Op op) {
  constexpr const char* kNames[] = {"HcclAllReduce",  "HcclBroadcast", "HcclReduceScatter", "HcclReduceScatterV", "HcclAllGather",
                                    "HcclAllGatherV", "HcclReduce",    "HcclScatter",       "HcclAlltoAll",       "HcclAlltoAllV",
                                    "HcclAlltoAllVC", "HcclSend",      "HcclRecv",          "HcclBatchSendRecv",  "HcclBarrier"};
  static_assert(sizeof kNames / sizeof *kNames == static_cast<size_t>(Op::kCount));
  return op < Op::kCount ? kNames[static_cast<size_t>(op)] : "an unknown operation";
}

std::string Header::to_text() const {
  std::string words = text(function_name(op), " (number ", sequence);
  if (op != Op::kBarrier) words += text(", ", count, " elements");
  if (type != HCCL_DATA_TYPE_RESERVED) words += text(", ", type_name(type));
  if (reduce_op != HCCL_REDUCE_RESERVED) words += text(", ", reduce_name(reduce_op));
  if (root != kNoRoot) words += text(", root ", root);
  if (note[0] != '\0') words += text(", ", note);
  return words + ")";
}

Status check_header(const Header& given, const Header& expected, uint32_t peer, uint32_t own) {
  Header received = given;
  received.note[sizeof received.note - 1] = '\0';
  for (char& letter : received.note) {
    if (letter != '\0' && (letter < ' ' || letter > '~'))
      letter = '?';  // a damaged message may hold any bytes; texts of errors must be valid UTF-8
  }
  if (received.magic != Header::kMagic || received.op >= Op::kCount) {
    return {HCCL_E_TCP_TRANSFER,
            text("a message of rank ", peer, " to rank ", own, " is damaged: it does not start with a header")};
  }
  const char* what = nullptr;
  if (received.op != expected.op) {
    what = "operation";
  } else if (received.sequence != expected.sequence) {
    what = "number";
  } else if (received.type != expected.type) {
    what = "data type";
  } else if (received.reduce_op != expected.reduce_op) {
    what = "reduction";
  } else if (received.root != expected.root) {
    what = "root";
  } else if (received.count != expected.count) {
    what = "count";
  } else if (std::strncmp(received.note, expected.note, sizeof received.note) != 0) {
    what = "meaning of the data";
  }
  if (what == nullptr) return {};
  return {HCCL_E_PARA, text("the ranks call different operations, the ", what, " differs: rank ", peer, " calls ",
                            received.to_text(), ", rank ", own, " calls ", expected.to_text())};
}

}  // namespace softnpu::hccl
