// Broadcast, scatter, reduce and barrier.
//   broadcast: a tree of hosts; in each host one rank receives the data and passes it on within the host while it arrives.
//   scatter: the root sends each part itself.
//   reduce: the root combines the data of all ranks. Large and several hosts: a chain along the hosts, see host_chain.h.
#include "hccl/collectives/host_chain.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kChainBytes = size_t{1} << 20;  // from here on the bandwidth of a link counts more than the number of steps

// The tree of a broadcast. Hosts are numbered from the root's host on; number 0 is the root of the tree.
class HostTree {
 public:
  HostTree(const Topology& topology, uint32_t root, size_t bytes)
      : topology_(topology), root_(root), first_(topology.host_of(root)), fan_out_(bytes >= kChainBytes ? 1 : 2) {}

  size_t number_of(uint32_t rank) const {
    return (topology_.host_of(rank) + topology_.host_count() - first_) % topology_.host_count();
  }
  // The rank of a host that receives the data from another host.
  uint32_t leader(size_t number) const {
    if (number == 0) return root_;
    return topology_.ranks_of((number + first_) % topology_.host_count())[0];
  }
  size_t parent(size_t number) const { return (number - 1) / fan_out_; }
  std::vector<size_t> children(size_t number) const {
    std::vector<size_t> result;
    for (size_t child = number * fan_out_ + 1; child <= (number + 1) * fan_out_ && child < topology_.host_count(); ++child) {
      result.push_back(child);
    }
    return result;
  }

 private:
  const Topology& topology_;
  const uint32_t root_;
  const size_t first_;
  const size_t fan_out_;
};

// The root combines the data of all ranks.
Status reduce_directly(Communicator& communicator, const Operation& operation, Exchange& exchange) {
  if (communicator.rank() == operation.root) {
    reduce_all(exchange, communicator, operation, operation.send, operation.count, operation.receive);
  } else {
    exchange.send(operation.root, operation.send, operation.count * operation.element());
  }
  return exchange.run();
}

// The data goes along the hosts in as many slices as there are lanes; the last host sends the results to the root.
Status reduce_along_hosts(Communicator& communicator, const Operation& operation, Exchange& exchange) {
  const uint32_t own = communicator.rank();
  const size_t last_host = communicator.topology().host_count() - 1, width = operation.element();
  HostChain chain(communicator, operation, exchange);
  const auto begin_of = [&](size_t lane) { return operation.count * lane / chain.lanes(); };
  const auto count_of = [&](size_t lane) { return begin_of(lane + 1) - begin_of(lane); };
  size_t ready = 0;
  std::byte* place = nullptr;  // of the one lane that this rank may carry
  for (size_t lane = 0; lane < chain.lanes(); ++lane) {
    if (chain.carries(lane)) {
      const bool is_result = chain.finishes(lane) && own == operation.root;
      place = is_result ? operation.receive + begin_of(lane) * width
                        : communicator.scratch(count_of(lane) * partial_size(operation.type));
    }
    chain.add_slice(lane, operation.send + begin_of(lane) * width, count_of(lane), place, place, &ready);
  }
  for (size_t lane = 0; lane < chain.lanes(); ++lane) {
    const uint32_t finisher = chain.carrier(last_host, lane);
    if (finisher == operation.root) continue;
    if (finisher == own) exchange.send_pieces(operation.root, place, count_of(lane) * width, &ready);
    if (operation.root == own) {
      exchange.receive_pieces(finisher, operation.receive + begin_of(lane) * width, count_of(lane) * width);
    }
  }
  return exchange.run();
}

}  // namespace

Status broadcast(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t bytes = operation.count * operation.element();
  const uint32_t own = communicator.rank();
  const HostTree tree(communicator.topology(), operation.root, bytes);
  const size_t number = tree.number_of(own);
  const uint32_t leader = tree.leader(number);
  size_t arrived = own == operation.root ? bytes : 0;
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(exchange, communicator, operation.header(sequence), operation.count);
  if (own != leader) {
    exchange.receive_pieces(leader, operation.receive, bytes);
    return exchange.run();
  }
  if (own != operation.root) exchange.receive_pieces(tree.leader(tree.parent(number)), operation.receive, bytes, &arrived);
  for (const size_t child : tree.children(number)) exchange.send_pieces(tree.leader(child), operation.receive, bytes, &arrived);
  for (const uint32_t peer : communicator.topology().ranks_of(communicator.topology().host_of(own))) {
    if (peer != own) exchange.send_pieces(peer, operation.receive, bytes, &arrived);
  }
  return exchange.run();
}

Status scatter(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t bytes = operation.count * operation.element();
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(exchange, communicator, operation.header(sequence), operation.count);
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
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(exchange, communicator, operation.header(sequence), operation.count);
  const bool is_large = operation.count * operation.element() >= kHierarchicalBytes;
  const Topology& topology = communicator.topology();
  const bool uses_chain = is_large && (topology.is_mixed() || topology.host_count() > 2);
  return uses_chain ? reduce_along_hosts(communicator, operation, exchange) : reduce_directly(communicator, operation, exchange);
}

Status barrier(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  Exchange exchange(communicator, Lane::kCollective);
  exchange_headers(exchange, communicator, operation.header(sequence), 0);
  return exchange.run();
}

}  // namespace softnpu::hccl
