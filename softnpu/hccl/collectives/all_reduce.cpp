// All-reduce. Small: every rank gets the whole of every other rank's data and combines it itself. Large: rank r gets and combines
// part r of everybody's data, and sends the result to all while the rest of its part still arrives.
#include <algorithm>
#include <cstring>

#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kOneShotBytes = size_t{16} << 10;  // all that a rank gets; above it the second step is cheaper than n copies
constexpr size_t kPartAlignment = 64;

Status one_shot(Communicator& communicator, const Operation& operation, Exchange& exchange) {
  const size_t bytes = operation.count * operation.element();
  const std::byte* own = operation.send;
  if (own == operation.receive && bytes > 0) {  // the result must not overwrite what is still to be sent
    std::byte* const kept = communicator.scratch(bytes);
    std::memcpy(kept, own, bytes);
    own = kept;
  }
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer != communicator.rank()) exchange.send(peer, own, bytes);
  }
  exchange.reduce(find_reduce(operation.type, operation.reduce_op), operation.element(), operation.receive, own, bytes);
  return exchange.run();
}

// In place too: a part of a result arrives only after the same part of the data was taken.
Status in_parts(Communicator& communicator, const Operation& operation, Exchange& exchange) {
  const size_t bytes = operation.count * operation.element();
  const size_t even = (bytes + communicator.size() - 1) / communicator.size();
  const size_t part = (even + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  const auto begin_of = [&](uint32_t rank) { return std::min(bytes, rank * part); };
  const auto size_of = [&](uint32_t rank) { return begin_of(rank + 1) - begin_of(rank); };
  const uint32_t own = communicator.rank();
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer != own) exchange.send(peer, operation.send + begin_of(peer), size_of(peer));
  }
  exchange.reduce(find_reduce(operation.type, operation.reduce_op), operation.element(), operation.receive + begin_of(own),
                  operation.send + begin_of(own), size_of(own));
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == own) continue;
    exchange.send(peer, operation.receive + begin_of(own), size_of(own), exchange.reduced());
    exchange.receive(peer, operation.receive + begin_of(peer), size_of(peer));
  }
  return exchange.run();
}

}  // namespace

Status all_reduce(Communicator& communicator, const Operation& operation, uint64_t sequence) {
  const size_t bytes = operation.count * operation.element();
  Exchange exchange(communicator, Lane::kCollective);
  greet_all(exchange, communicator, operation.header(sequence), operation.count);
  const bool is_small = bytes * (communicator.size() - 1) <= kOneShotBytes;
  return is_small ? one_shot(communicator, operation, exchange) : in_parts(communicator, operation, exchange);
}

}  // namespace softnpu::hccl
