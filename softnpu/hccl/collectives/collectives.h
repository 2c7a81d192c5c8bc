// The collectives: each function adds items to an exchange and runs it, on the thread of the stream.
//
// In every collective each rank greets every other one, also where no data goes between them: so a rank that does something else
// is noticed by all ranks, and a collective ends on no rank before it began on all.
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

// Greets every other rank. `counts_to` and `counts_from` give the elements that go to a rank and come from it.
template <typename CountTo, typename CountFrom>
void greet_all(Exchange& exchange, Communicator& communicator, const Header& header, CountTo count_to, CountFrom count_from) {
  for (uint32_t peer = 0; peer < communicator.size(); ++peer) {
    if (peer == communicator.rank()) continue;
    Header own = header, expected = header;
    own.count = count_to(peer);
    expected.count = count_from(peer);
    exchange.greet(peer, own, expected);
  }
}

// The same count for all.
inline void greet_all(Exchange& exchange, Communicator& communicator, const Header& header, uint64_t count) {
  const auto same = [=](uint32_t) { return count; };
  greet_all(exchange, communicator, header, same, same);
}

// Copies the own part of a rank, unless it is in its place.
void copy_own(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace softnpu::hccl
