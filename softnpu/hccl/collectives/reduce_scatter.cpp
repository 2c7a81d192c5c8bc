// Reduce-scatter, also with parts of different sizes.
//   usually: rank r gets part r of the data of all ranks and combines it.
//   large, several hosts with several ranks each: each part goes along the hosts, see host_chain.h, and then to its rank.
#include "hccl/collectives/host_chain.h"

namespace softnpu::hccl {
namespace {

class ReduceScatter {
 public:
  ReduceScatter(Communicator& communicator, const Operation& operation) : communicator_(communicator), operation_(operation) {}

  uint64_t count_of(uint32_t rank) const { return is_even() ? operation_.count : operation_.send_counts[rank]; }

  const std::byte* data_of(uint32_t rank) const {
    return operation_.send + (is_even() ? rank * operation_.count : operation_.send_offsets[rank]) * operation_.element();
  }

  size_t bytes() const {
    size_t count = 0;
    for (uint32_t rank = 0; rank < communicator_.size(); ++rank) count += count_of(rank);
    return count * operation_.element();
  }

  void add_direct(Exchange& exchange) const {
    const uint32_t own = communicator_.rank();
    for (uint32_t peer = 0; peer < communicator_.size(); ++peer) {
      if (peer != own) exchange.send(peer, data_of(peer), count_of(peer) * operation_.element());
    }
    reduce_all(exchange, communicator_, operation_, data_of(own), operation_.count, operation_.receive);
  }

  // Fills `ready` with a counter for each part.
  void add_along_hosts(Exchange& exchange, std::vector<size_t>* ready) const {
    const Topology& topology = communicator_.topology();
    const size_t last_host = topology.host_count() - 1, width = operation_.element();
    const uint32_t own = communicator_.rank();
    HostChain chain(communicator_, operation_, exchange);
    const auto lane_of = [&](uint32_t part) { return topology.index_of(part) % chain.lanes(); };
    ready->assign(communicator_.size(), 0);
    std::vector<std::byte*> places(communicator_.size(), nullptr);
    place_partials(chain, &places);
    for (uint32_t part = 0; part < communicator_.size(); ++part) {
      chain.add_slice(lane_of(part), data_of(part), count_of(part), places[part], places[part], &(*ready)[part]);
    }
    for (uint32_t part = 0; part < communicator_.size(); ++part) {
      const size_t bytes = count_of(part) * width;
      const uint32_t finisher = chain.carrier(last_host, lane_of(part));
      if (finisher == part) continue;
      if (finisher == own) exchange.send_pieces(part, places[part], bytes, &(*ready)[part]);
      if (part == own) exchange.receive_pieces(finisher, operation_.receive, bytes);
    }
  }

 private:
  bool is_even() const { return operation_.op == Op::kReduceScatter; }

  // Room for the parts that this rank carries: scratch memory, except for its own result.
  void place_partials(const HostChain& chain, std::vector<std::byte*>* places) const {
    const Topology& topology = communicator_.topology();
    const size_t width = partial_size(operation_.type);
    size_t total = 0;
    std::vector<size_t> offsets(communicator_.size(), 0);
    for (uint32_t part = 0; part < communicator_.size(); ++part) {
      offsets[part] = total;
      if (chain.carries(topology.index_of(part) % chain.lanes())) total += (count_of(part) * width + 63) / 64 * 64;
    }
    std::byte* const room = communicator_.scratch(total);
    for (uint32_t part = 0; part < communicator_.size(); ++part) (*places)[part] = room + offsets[part];
    const uint32_t own = communicator_.rank();
    if (chain.finishes(topology.index_of(own) % chain.lanes())) (*places)[own] = operation_.receive;
  }

  Communicator& communicator_;
  const Operation& operation_;
};

}  // namespace

Status reduce_scatter(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const ReduceScatter call(communicator, operation);
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(
      exchange, communicator, operation.header(sequence), [&](uint32_t rank) { return call.count_of(rank); },
      [&](uint32_t) { return operation.count; });
  std::vector<size_t> ready;
  if (communicator.topology().is_mixed() && call.bytes() >= kHierarchicalBytes) {
    call.add_along_hosts(exchange, &ready);
  } else {
    call.add_direct(exchange);
  }
  return exchange.run();
}

}  // namespace softnpu::hccl
