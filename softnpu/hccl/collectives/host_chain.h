// A reduction across hosts that sends each slice of the data over each link between hosts once.
//
// A slice goes along the hosts in their order. In each host one rank, the carrier of the slice, combines the partial result of
// the hosts before with the data of all ranks of its host, which it reads through shared memory, and sends the new partial result
// to the carrier of the next host. The carrier of the last host has the result. All of this is pipelined. The order of the
// operands is Topology::order(), the same as without a chain.
//
//   HostChain chain(communicator, operation, exchange);
//   std::byte* partial = chain.carries(lane) ? communicator.scratch(...) : nullptr;
//   chain.add_slice(lane, own_data, elements, partial, result, &ready);
//
// Every rank adds the same slices in the same order. Slices of the same lane have the same carriers; there are lanes() lanes.
#pragma once

#include "hccl/collectives/collectives.h"

namespace softnpu::hccl {

class HostChain {
 public:
  HostChain(Communicator& communicator, const Operation& operation, Exchange& exchange);

  // As many as the smallest host has ranks.
  size_t lanes() const { return topology_.width(); }
  uint32_t carrier(size_t host, size_t lane) const { return topology_.ranks_of(host)[lane]; }
  // Whether this rank is the carrier of its host.
  bool carries(size_t lane) const { return carrier(host_, lane) == communicator_.rank(); }
  // Whether this rank is the carrier of the last host, which gets the result.
  bool finishes(size_t lane) const { return is_last_ && carries(lane); }

  // `own` is the data of this rank. A carrier needs room for `elements` partial results at `partial`, the last carrier needs room
  // for the result at `result`; both may be `own`. `ready`, for carriers, counts the bytes of `partial` or `result` that are
  // done.
  void add_slice(size_t lane, const std::byte* own, size_t elements, std::byte* partial, std::byte* result, size_t* ready);

 private:
  Communicator& communicator_;
  const Operation& operation_;
  Exchange& exchange_;
  const Topology& topology_;
  const size_t host_;
  const bool is_last_;
};

}  // namespace softnpu::hccl
