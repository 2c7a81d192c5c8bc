// All-gather, also with parts of different sizes.
//   usually: every rank sends its part to every other rank.
//   large, several hosts with several ranks each: every rank sends its part to one rank of each other host, which passes it on
//   within its host while it arrives.
#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {
namespace {

class AllGather {
 public:
  AllGather(Communicator& communicator, const Operation& operation)
      : communicator_(communicator), operation_(operation), arrived_(communicator.size(), 0) {}

  uint64_t count_of(uint32_t rank) const { return is_even() ? operation_.count : operation_.receive_counts[rank]; }
  size_t bytes_of(uint32_t rank) const { return count_of(rank) * operation_.element(); }

  std::byte* place_of(uint32_t rank) const {
    return operation_.receive + (is_even() ? rank * operation_.count : operation_.receive_offsets[rank]) * operation_.element();
  }

  size_t bytes() const {
    size_t total = 0;
    for (uint32_t rank = 0; rank < communicator_.size(); ++rank) total += bytes_of(rank);
    return total;
  }

  void add_direct(Exchange& exchange) const {
    for (uint32_t peer = 0; peer < communicator_.size(); ++peer) {
      if (peer == communicator_.rank()) continue;
      exchange.send(peer, operation_.send, bytes_of(communicator_.rank()));
      exchange.receive(peer, place_of(peer), bytes_of(peer));
    }
  }

  // Both ends of a connection add the parts in the order of their ranks, the sender's own part first.
  void add_along_hosts(Exchange& exchange) {
    const Topology& topology = communicator_.topology();
    const uint32_t own = communicator_.rank();
    const size_t host = topology.host_of(own);
    const auto entry_rank = [&](size_t to, uint32_t part) {
      const std::vector<uint32_t>& ranks = topology.ranks_of(to);
      return ranks[topology.index_of(part) % ranks.size()];
    };
    for (size_t other = 0; other < topology.host_count(); ++other) {
      if (other != host) exchange.send_pieces(entry_rank(other, own), operation_.send, bytes_of(own), nullptr);
    }
    const std::vector<uint32_t>& neighbours = topology.ranks_of(host);
    for (const uint32_t peer : neighbours) {
      if (peer == own) continue;
      exchange.send(peer, operation_.send, bytes_of(own));
      exchange.receive(peer, place_of(peer), bytes_of(peer));
    }
    for (uint32_t part = 0; part < communicator_.size(); ++part) {
      if (topology.host_of(part) == host) continue;
      const uint32_t entry = entry_rank(host, part);
      if (entry != own) {
        exchange.receive_pieces(entry, place_of(part), bytes_of(part));
        continue;
      }
      exchange.receive_pieces(part, place_of(part), bytes_of(part), &arrived_[part]);
      for (const uint32_t peer : neighbours) {
        if (peer != own) exchange.send_pieces(peer, place_of(part), bytes_of(part), &arrived_[part]);
      }
    }
  }

 private:
  bool is_even() const { return operation_.op == Op::kAllGather; }

  Communicator& communicator_;
  const Operation& operation_;
  std::vector<size_t> arrived_;
};

}  // namespace

Status all_gather(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  AllGather call(communicator, operation);
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(
      exchange, communicator, operation.header(sequence), [&](uint32_t) { return operation.count; },
      [&](uint32_t rank) { return call.count_of(rank); });
  if (communicator.topology().is_mixed() && call.bytes() >= kHierarchicalBytes) {
    call.add_along_hosts(exchange);
  } else {
    call.add_direct(exchange);
  }
  copy_own(call.place_of(communicator.rank()), operation.send, call.bytes_of(communicator.rank()));
  return exchange.run();
}

}  // namespace softnpu::hccl
