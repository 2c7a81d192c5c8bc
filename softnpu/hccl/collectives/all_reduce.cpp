// All-reduce.
//   small: every rank gets the data of every other rank and combines it.
//   large: rank r gets and combines part r of the data of all ranks, and sends the result to all ranks while the rest of its part
//          still arrives.
//   large, several hosts with several ranks each: a chain along the hosts, see host_chain.h. The result goes back along the
//   hosts.
#include <algorithm>
#include <cstring>

#include "hccl/collectives/host_chain.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kOneShotBytes = size_t{16} << 10;  // of all other ranks together
constexpr size_t kPartAlignment = 64;

// Cuts `bytes` into `count` parts.
class Parts {
 public:
  Parts(size_t bytes, size_t count)
      : bytes_(bytes), part_(((bytes + count - 1) / count + kPartAlignment - 1) / kPartAlignment * kPartAlignment) {}

  size_t begin(size_t index) const { return std::min(bytes_, index * part_); }
  size_t size(size_t index) const { return begin(index + 1) - begin(index); }

 private:
  size_t bytes_;
  size_t part_;
};

Status one_shot(Communicator& communicator, const Operation& operation, Exchange& exchange) {
  const size_t bytes = operation.count * operation.element();
  const std::byte* own = operation.send;
  if (own == operation.receive && bytes > 0) {  // the result must not overwrite data that is not sent yet
    std::byte* const copy = communicator.scratch(bytes);
    std::memcpy(copy, own, bytes);
    own = copy;
  }
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer != communicator.rank()) exchange.send(peer, own, bytes);
  }
  reduce_all(exchange, communicator, operation, own, operation.count, operation.receive);
  return exchange.run();
}

// Works in place, too: a part of the result arrives only after the same part of the data was read.
Status in_parts(Communicator& communicator, const Operation& operation, Exchange& exchange) {
  const Parts parts(operation.count * operation.element(), communicator.size());
  const uint32_t own = communicator.rank();
  size_t ready = 0;
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer != own) exchange.send(peer, operation.send + parts.begin(peer), parts.size(peer));
  }
  reduce_all(exchange, communicator, operation, operation.send + parts.begin(own), parts.size(own) / operation.element(),
             operation.receive + parts.begin(own), &ready);
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == own) continue;
    exchange.send_pieces(peer, operation.receive + parts.begin(own), parts.size(own), &ready);
    exchange.receive_pieces(peer, operation.receive + parts.begin(peer), parts.size(peer));
  }
  return exchange.run();
}

// Works in place, too, for the same reason. Partial results of the width of a value lie where the result will be.
Status along_hosts(Communicator& communicator, const Operation& operation, Exchange& exchange) {
  const Topology& topology = communicator.topology();
  const size_t host = topology.host_of(communicator.rank()), width = operation.element();
  HostChain chain(communicator, operation, exchange);
  const Parts parts(operation.count * width, chain.lanes());
  const bool is_wide = partial_size(operation.type) != width;
  size_t ready = 0, arrived = 0;  // a rank carries one lane at most
  for (size_t lane = 0; lane < chain.lanes(); ++lane) {
    const size_t elements = parts.size(lane) / width;
    std::byte* const place = operation.receive + parts.begin(lane);
    const bool needs_room = is_wide && chain.carries(lane) && !chain.finishes(lane);
    std::byte* const partial = needs_room ? communicator.scratch(elements * partial_size(operation.type)) : place;
    chain.add_slice(lane, operation.send + parts.begin(lane), elements, partial, place, &ready);
  }
  for (size_t lane = 0; lane < chain.lanes(); ++lane) {
    std::byte* const place = operation.receive + parts.begin(lane);
    const size_t bytes = parts.size(lane);
    if (!chain.carries(lane)) {
      exchange.receive_pieces(chain.carrier(host, lane), place, bytes);
      continue;
    }
    const bool finishes = chain.finishes(lane);
    if (!finishes) exchange.receive_pieces(chain.carrier(host + 1, lane), place, bytes, &arrived);
    const size_t* const done = finishes ? &ready : &arrived;
    if (host > 0) exchange.send_pieces(chain.carrier(host - 1, lane), place, bytes, done);
    for (const uint32_t peer : topology.ranks_of(host)) {
      if (peer != communicator.rank()) exchange.send_pieces(peer, place, bytes, done);
    }
  }
  return exchange.run();
}

}  // namespace

void reduce_all(Exchange& exchange, Communicator& communicator, const Operation& operation, const std::byte* own, size_t elements,
                std::byte* destination, size_t* ready) {
  Reduction reduction;
  reduction.function = find_reduce(operation.type, operation.reduce_op);
  reduction.destination = destination;
  reduction.element_bytes = operation.element();
  reduction.elements = elements;
  reduction.ready = ready;
  for (const uint32_t rank : communicator.topology().order()) {
    reduction.terms.push_back({rank, operation.element(), rank == communicator.rank() ? own : nullptr});
  }
  exchange.reduce(std::move(reduction));
}

Status all_reduce(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t bytes = operation.count * operation.element();
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(exchange, communicator, operation.header(sequence), operation.count);
  if (bytes * (communicator.size() - 1) <= kOneShotBytes) return one_shot(communicator, operation, exchange);
  if (bytes >= kHierarchicalBytes && communicator.topology().is_mixed()) return along_hosts(communicator, operation, exchange);
  return in_parts(communicator, operation, exchange);
}

}  // namespace softnpu::hccl
