// Broadcast, scatter and reduce: between the root and each other rank. Ranks that share memory with the root read there at once.
#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {

Status broadcast(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t bytes = operation.count * operation.element();
  Exchange exchange(communicator, Lane::kCollective);
  greet_all(exchange, communicator, operation.header(sequence), operation.count);
  if (communicator.rank() != operation.root) {
    exchange.receive(operation.root, operation.receive, bytes);
    return exchange.run();
  }
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer != operation.root) exchange.send(peer, operation.receive, bytes);
  }
  return exchange.run();
}

Status scatter(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t bytes = operation.count * operation.element();
  Exchange exchange(communicator, Lane::kCollective);
  greet_all(exchange, communicator, operation.header(sequence), operation.count);
  if (communicator.rank() != operation.root) {
    exchange.receive(operation.root, operation.receive, bytes);
    return exchange.run();
  }
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer != operation.root) exchange.send(peer, operation.send + peer * bytes, bytes);
  }
  copy_own(operation.receive, operation.send + operation.root * bytes, bytes);
  return exchange.run();
}

Status reduce(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t bytes = operation.count * operation.element();
  Exchange exchange(communicator, Lane::kCollective);
  greet_all(exchange, communicator, operation.header(sequence), operation.count);
  if (communicator.rank() == operation.root) {
    exchange.reduce(find_reduce(operation.type, operation.reduce_op), operation.element(), operation.receive, operation.send,
                    bytes);
  } else {
    exchange.send(operation.root, operation.send, bytes);
  }
  return exchange.run();
}

Status barrier(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  Exchange exchange(communicator, Lane::kCollective);
  greet_all(exchange, communicator, operation.header(sequence), 0);
  return exchange.run();
}

}  // namespace softnpu::hccl
