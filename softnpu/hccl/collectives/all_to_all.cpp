// All-to-all in its three forms. The API functions convert their counts to lists by rank.
#include <cstring>

#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {

void copy_own(std::byte* to, const std::byte* from, size_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

Status all_to_all(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t element = operation.element();
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(
      exchange, communicator, operation.header(sequence), [&](uint32_t peer) { return operation.send_counts[peer]; },
      [&](uint32_t peer) { return operation.receive_counts[peer]; });
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    exchange.send(peer, operation.send + operation.send_offsets[peer] * element, operation.send_counts[peer] * element);
    exchange.receive(peer, operation.receive + operation.receive_offsets[peer] * element,
                     operation.receive_counts[peer] * element);
  }
  const uint32_t own = communicator.rank();
  copy_own(operation.receive + operation.receive_offsets[own] * element, operation.send + operation.send_offsets[own] * element,
           operation.send_counts[own] * element);
  return exchange.run();
}

}  // namespace softnpu::hccl
