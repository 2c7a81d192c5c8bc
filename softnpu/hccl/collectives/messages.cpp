// Messages between two ranks, one or several at once. They have their own lane and do not wait for collectives. A message of a
// rank to itself is a copy. The sender waits for a reply, so that a message which the receiver did not expect is an error on both
// ranks. The receiver replies as soon as the message has arrived, even if its batch still waits for others.
#include <cstring>
#include <mutex>
#include <set>

#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {
namespace {

using Locks = std::vector<std::unique_lock<std::mutex>>;

// Locks in the order that communicator.h requires.
Locks lock_peers(Communicator& communicator, const Operation& operation) {
  std::set<uint32_t> receivers, senders;
  for (const Operation::Message& message : operation.messages) {
    if (message.peer != communicator.rank()) (message.is_send ? receivers : senders).insert(message.peer);
  }
  Locks locks;
  for (const uint32_t peer : receivers) locks.emplace_back(communicator.send_lock(peer));
  for (const uint32_t peer : senders) locks.emplace_back(communicator.receive_lock(peer));
  return locks;
}

// The n-th message to this rank itself goes to the n-th receive from itself. HcclBatchSendRecv has checked that they match.
void copy_to_itself(Communicator& communicator, const Operation& operation) {
  size_t next = 0;
  const auto is_own = [&](const Operation::Message& message) { return message.peer == communicator.rank(); };
  for (const Operation::Message& message : operation.messages) {
    if (!is_own(message) || !message.is_send) continue;
    while (!is_own(operation.messages[next]) || operation.messages[next].is_send) ++next;
    copy_own(operation.messages[next++].data, message.data, message.count * element_size(message.type));
  }
}

}  // namespace

Status exchange_messages(Communicator& communicator, const Operation& operation) {
  const Locks locks = lock_peers(communicator, operation);
  if (communicator.has_failed()) return communicator.failure();
  Exchange exchange(communicator, Lane::kMessage);
  for (const Operation::Message& message : operation.messages) {
    if (message.peer == communicator.rank()) continue;
    Header header;
    header.op = Op::kSend;
    header.type = message.type;
    header.count = message.count;
    std::memcpy(header.note, message.note.data(), sizeof header.note);
    const size_t bytes = message.count * element_size(message.type);
    if (message.is_send) {
      header.sequence = communicator.next_send(message.peer);
      exchange.send_header(message.peer, header);
      exchange.send(message.peer, message.data, bytes);
      exchange.expect_reply(message.peer, header);
    } else {
      header.sequence = communicator.next_receive(message.peer);
      exchange.expect_header(message.peer, header);
      exchange.receive(message.peer, message.data, bytes);
      exchange.send_reply(message.peer, header);
    }
  }
  exchange.set_function(operation.op);
  copy_to_itself(communicator, operation);
  return exchange.run();
}

}  // namespace softnpu::hccl
