#include "hccl/collectives/host_chain.h"

namespace softnpu::hccl {

HostChain::HostChain(Communicator& communicator, const Operation& operation, Exchange& exchange)
    : communicator_(communicator),
      operation_(operation),
      exchange_(exchange),
      topology_(communicator.topology()),
      host_(topology_.host_of(communicator.rank())),
      is_last_(host_ + 1 == topology_.host_count()) {}

void HostChain::add_slice(size_t lane, const std::byte* own, size_t elements, std::byte* partial, std::byte* result,
                          size_t* ready) {
  const size_t width = operation_.element();
  if (!carries(lane)) {
    exchange_.send(carrier(host_, lane), own, elements * width);
    return;
  }
  const bool is_first = host_ == 0;
  const size_t partial_width = partial_size(operation_.type);
  Reduction reduction;
  reduction.function = find_reduce(operation_.type, operation_.reduce_op, {.source = !is_first, .destination = !is_last_});
  reduction.destination = is_last_ ? result : partial;
  reduction.element_bytes = is_last_ ? width : partial_width;
  reduction.elements = elements;
  reduction.ready = ready;
  if (!is_first) reduction.terms.push_back({carrier(host_ - 1, lane), partial_width, nullptr});
  for (const uint32_t rank : topology_.ranks_of(host_)) {
    reduction.terms.push_back({rank, width, rank == communicator_.rank() ? own : nullptr});
  }
  exchange_.reduce(std::move(reduction));
  if (!is_last_) exchange_.send(carrier(host_ + 1, lane), partial, elements * partial_width, ready);
}

}  // namespace softnpu::hccl
