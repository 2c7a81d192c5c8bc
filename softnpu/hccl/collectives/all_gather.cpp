// All-gather, also with parts of different sizes: every rank sends its part to every other one.
#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {

Status all_gather(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t element = operation.element();
  const bool is_even = operation.op == Op::kAllGather;
  const auto count_of = [&](uint32_t rank) { return is_even ? operation.count : operation.receive_counts[rank]; };
  const auto place_of = [&](uint32_t rank) {
    return operation.receive + (is_even ? rank * operation.count : operation.receive_offsets[rank]) * element;
  };
  Exchange exchange(communicator, Lane::kCollective);
  greet_all(
      exchange, communicator, operation.header(sequence), [&](uint32_t) { return operation.count; }, count_of);
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    exchange.send(peer, operation.send, operation.count * element);
    exchange.receive(peer, place_of(peer), count_of(peer) * element);
  }
  copy_own(place_of(communicator.rank()), operation.send, operation.count * element);
  return exchange.run();
}

}  // namespace softnpu::hccl
