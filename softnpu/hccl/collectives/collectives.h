// The collectives. Each function adds items to an exchange and runs it, on the thread of the stream.
//
// In every collective each rank exchanges a header with every other rank, even if no data goes between them. So all ranks notice
// a rank that calls another operation, and a collective ends on no rank before it has started on all ranks.
//
// Reductions combine the ranks in the order Topology::order(), whatever the algorithm. So the result does not depend on the size.
#pragma once

#include "hccl/operation.h"

namespace softnpu::hccl {

Status all_reduce(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status broadcast(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status reduce_scatter(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status all_gather(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status reduce(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status scatter(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status all_to_all(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status barrier(Communicator& communicator, const Operation& operation, uint64_t sequence);
Status exchange_messages(Communicator& communicator, const Operation& operation);

// From this size on, data that goes between hosts takes the way that has the least traffic there. Below it, the way with the
// fewest steps is taken.
constexpr size_t kHierarchicalBytes = size_t{256} << 10;

// Exchanges headers with every other rank. `count_to` and `count_from` return the elements that go to a rank and come from it.
template <typename CountTo, typename CountFrom>
void exchange_headers(Exchange& exchange, Communicator& communicator, const Header& header, CountTo count_to,
                      CountFrom count_from) {
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    Header own = header, expected = header;
    own.count = count_to(peer);
    expected.count = count_from(peer);
    exchange.send_header(peer, own);
    exchange.expect_header(peer, expected);
  }
}

// With the same count for all ranks.
inline void exchange_headers(Exchange& exchange, Communicator& communicator, const Header& header, uint64_t count) {
  const auto same = [=](uint32_t) { return count; };
  exchange_headers(exchange, communicator, header, same, same);
}

// Adds the reduction of `elements` of every rank to `destination`. The data of this rank is at `own`; the next item from every
// other rank is its data.
void reduce_all(Exchange& exchange, Communicator& communicator, const Operation& operation, const std::byte* own, size_t elements,
                std::byte* destination, size_t* ready = nullptr);

// Copies the part that a rank sends to itself, unless it is in its place already.
void copy_own(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace softnpu::hccl
