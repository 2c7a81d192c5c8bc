// Reduce-scatter, also with parts of different sizes: rank r gets part r of everybody's data and combines it.
#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {

Status reduce_scatter(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t element = operation.element();
  const bool is_even = operation.op == Op::kReduceScatter;
  const auto count_of = [&](uint32_t rank) { return is_even ? operation.count : operation.send_counts[rank]; };
  const auto begin_of = [&](uint32_t rank) {
    return operation.send + (is_even ? rank * operation.count : operation.send_offsets[rank]) * element;
  };
  Exchange exchange(communicator, Lane::kCollective);
  greet_all(exchange, communicator, operation.header(sequence), count_of, [&](uint32_t) { return operation.count; });
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer != communicator.rank()) exchange.send(peer, begin_of(peer), count_of(peer) * element);
  }
  exchange.reduce(find_reduce(operation.type, operation.reduce_op), element, operation.receive, begin_of(communicator.rank()),
                  operation.count * element);
  return exchange.run();
}

}  // namespace softnpu::hccl
