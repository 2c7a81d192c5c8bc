// The items of an exchange and their movement. exchange_wait.cpp has run() and the waiting.
#include "hccl/exchange.h"

#include <algorithm>
#include <cstring>

#include "hccl/library.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kReducePiece = size_t{128} << 10;  // bytes of the widest term; results are sent between pieces
constexpr size_t kPieceAlignment = 16;

// The device address of memory that kernels see at `alias`.
const void* device_address(const std::byte* alias) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(alias) - static_cast<uintptr_t>(driver()->alias_offset));
}

}  // namespace

Exchange::Exchange(Communicator& communicator, Lane lane)
    : communicator_(communicator),
      lane_(lane),
      peers_(size_t{2} * communicator.size()),
      next_process_check_(Deadline::after(kProcessCheck)) {}

// --- adding items ---

Exchange::Peer& Exchange::open(uint32_t number) {
  Peer& peer = peers_[number];
  if (peer.channel == nullptr) peer.channel = &communicator_.channel(rank_of(number), lane_of(number));
  return peer;
}

void Exchange::send_header(uint32_t peer, const Header& own) { add_header(peer, own, 0); }
void Exchange::expect_header(uint32_t peer, const Header& expected) { add_expected_header(peer, expected); }
void Exchange::send_reply(uint32_t peer, const Header& own) { add_header(reply_number(peer), own, peers_[peer].incoming.size()); }
void Exchange::expect_reply(uint32_t peer, const Header& expected) { add_expected_header(reply_number(peer), expected); }

void Exchange::add_header(uint32_t number, const Header& own, size_t after) {
  op_ = own.op;
  Outgoing item;
  item.is_header = true;
  item.header = own;
  item.bytes = sizeof item.header;
  item.after = after;
  open(number).outgoing.push_back(item);
}

void Exchange::add_expected_header(uint32_t number, const Header& expected) {
  op_ = expected.op;
  Incoming item;
  item.kind = Kind::kHeader;
  item.expected = expected;
  item.bytes = sizeof item.header;
  open(number).incoming.push_back(item);
}

void Exchange::send(uint32_t number, const std::byte* data, size_t bytes, const size_t* ready) {
  if (bytes > 0) add_outgoing(number, data, bytes, ready, 0);
}

void Exchange::send_pieces(uint32_t number, const std::byte* data, size_t bytes, const size_t* ready) {
  for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
    add_outgoing(number, data + begin, std::min(kPieceBytes, bytes - begin), ready, begin);
  }
}

void Exchange::receive_pieces(uint32_t number, std::byte* data, size_t bytes, size_t* arrived) {
  for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
    add_incoming(number, Kind::kCopy, data + begin, std::min(kPieceBytes, bytes - begin), arrived);
  }
}

void Exchange::add_outgoing(uint32_t number, const std::byte* data, size_t bytes, const size_t* ready, size_t begin) {
  Peer& peer = open(number);
  Outgoing item;
  item.data = data;
  item.bytes = bytes;
  item.ready = ready;
  item.begin = begin;
  item.may_be_direct = bytes >= kDirectBytes && peer.channel->is_direct();
  peer.outgoing.push_back(item);
}

void Exchange::add_incoming(uint32_t number, Kind kind, std::byte* data, size_t bytes, size_t* arrived) {
  Peer& peer = open(number);
  Incoming item;
  item.kind = kind;
  item.data = data;
  item.bytes = bytes;
  item.arrived = arrived;
  item.may_be_direct = bytes >= kDirectBytes && peer.channel->is_direct();
  peer.incoming.push_back(item);
}

void Exchange::receive(uint32_t number, std::byte* data, size_t bytes) {
  if (bytes > 0) add_incoming(number, Kind::kCopy, data, bytes, nullptr);
}

void Exchange::reduce(Reduction reduction) {
  if (reduction.elements == 0) return;
  size_t narrowest = kPieceAlignment;
  for (const Term& term : reduction.terms) {
    narrowest = std::min(narrowest, term.element_bytes);
    if (term.own == nullptr) add_incoming(term.rank, Kind::kTerm, nullptr, reduction.elements * term.element_bytes, nullptr);
  }
  sources_.resize(std::max(sources_.size(), reduction.terms.size()));
  ActiveReduction& active = reductions_.emplace_back();
  static_cast<Reduction&>(active) = std::move(reduction);
  active.granularity = kPieceAlignment / narrowest;
}

// --- moving ---

Status Exchange::step(bool* moved) {
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    Peer& peer = peers_[number];
    if (peer.channel == nullptr) continue;
    step_outgoing(number, peer, moved);
    SOFTNPU_RETURN_IF_ERROR(step_incoming(number, peer, moved));
  }
  step_reductions(moved);
  for (Peer& peer : peers_) {
    if (peer.channel == nullptr) continue;
    if (!peer.outgoing.empty()) peer.channel->flush_writes();
    if (!peer.incoming.empty()) peer.channel->flush_reads();
  }
  has_moved_ = has_moved_ || *moved;
  return {};
}

void Exchange::describe(Outgoing& item) const {
  MemoryPlace place;
  item.descriptor.bytes = item.bytes;
  if (!find_place(device_address(item.data), item.bytes, &place)) return;
  item.descriptor.is_direct = 1;
  item.descriptor.file = place.file;
  item.descriptor.inode = place.inode;
  item.descriptor.offset = place.offset;
}

void Exchange::step_outgoing(uint32_t number, Peer& peer, bool* moved) {
  while (peer.has_outgoing()) {
    Outgoing& item = peer.outgoing[peer.next_outgoing];
    if (!may_be_sent(number, item)) return;
    const size_t ready = item.ready_bytes();
    if (item.may_be_direct && item.described < sizeof item.descriptor) {
      if (ready < item.bytes) return;
      if (item.described == 0) describe(item);
      const auto* const bytes = reinterpret_cast<const std::byte*>(&item.descriptor);
      const size_t written = peer.channel->write(bytes + item.described, sizeof item.descriptor - item.described);
      if (written == 0) return;
      *moved = true;
      item.described += written;
      if (item.described < sizeof item.descriptor) continue;
      peer.channel->end_write();
      if (item.descriptor.is_direct != 0) {
        ++communicator_.direct_count(rank_of(number), lane_of(number));
        ++peer.next_outgoing;
        continue;
      }
    }
    const std::byte* const data = item.is_header ? reinterpret_cast<const std::byte*>(&item.header) : item.data;
    const size_t written = peer.channel->write(data + item.done, ready - item.done);
    if (written == 0) return;
    *moved = true;
    item.done += written;
    if (item.done < item.bytes) continue;
    peer.channel->end_write();
    ++peer.next_outgoing;
  }
}

Result<bool> Exchange::read_descriptor(uint32_t number, Peer& peer, Incoming& item, bool* moved) {
  if (!item.may_be_direct || item.source != nullptr) return true;
  while (item.described < sizeof item.descriptor) {
    auto* const bytes = reinterpret_cast<std::byte*>(&item.descriptor);
    const size_t got = peer.channel->read(bytes + item.described, sizeof item.descriptor - item.described);
    if (got == 0) return false;
    *moved = true;
    item.described += got;
    if (item.described == sizeof item.descriptor) peer.channel->end_read();
  }
  if (item.descriptor.is_direct == 0) return true;
  if (item.descriptor.bytes != item.bytes) {
    return Status(HCCL_E_TCP_TRANSFER, text("a message of rank ", rank_of(number), " is damaged: it has ", item.descriptor.bytes,
                                            " bytes instead of ", item.bytes));
  }
  Result<const std::byte*> source = communicator_.memory(rank_of(number))
                                        .find({item.descriptor.file, item.descriptor.inode, item.descriptor.offset}, item.bytes);
  if (!source.ok()) return source.take_status();
  item.source = source.value();
  return true;
}

Status Exchange::step_incoming(uint32_t number, Peer& peer, bool* moved) {
  while (peer.has_incoming()) {
    Incoming& item = peer.incoming[peer.next_incoming];
    Result<bool> is_described = read_descriptor(number, peer, item, moved);
    if (!is_described.ok()) return is_described.take_status();
    if (!is_described.value() || item.kind == Kind::kTerm) return {};
    if (item.source != nullptr) {
      std::memcpy(item.data, item.source, item.bytes);
      item.advance(item.bytes);
      peer.channel->acknowledge();
      peer.channel->flush_reads();
      *moved = true;
      ++peer.next_incoming;
      continue;
    }
    std::byte* const data = item.kind == Kind::kHeader ? reinterpret_cast<std::byte*>(&item.header) : item.data;
    const size_t got = peer.channel->read(data + item.done, item.bytes - item.done);
    if (got == 0) return {};
    *moved = true;
    item.advance(got);
    if (item.done < item.bytes) continue;
    peer.channel->end_read();
    ++peer.next_incoming;
    if (item.kind == Kind::kHeader) {
      SOFTNPU_RETURN_IF_ERROR(check_header(item.header, item.expected, rank_of(number), communicator_.rank()));
    }
  }
  return {};
}

size_t Exchange::available_elements(const ActiveReduction& reduction) {
  const size_t left = reduction.elements - reduction.done;
  size_t elements = left;
  uint32_t shortest = 0;  // the rank with the fewest elements
  for (size_t index = 0; index < reduction.terms.size(); ++index) {
    const Term& term = reduction.terms[index];
    elements = std::min(elements, kReducePiece / term.element_bytes);
    if (term.own != nullptr) {
      sources_[index] = term.own + reduction.done * term.element_bytes;
      continue;
    }
    Peer& peer = peers_[term.rank];
    lacking_ = term.rank;
    if (!peer.has_incoming()) return 0;
    const Incoming& item = peer.incoming[peer.next_incoming];
    if (item.kind != Kind::kTerm || !item.is_described()) return 0;
    if (item.source != nullptr) {
      sources_[index] = item.source + reduction.done * term.element_bytes;
      continue;
    }
    const std::span<const std::byte> piece = peer.channel->peek(elements * term.element_bytes);
    sources_[index] = piece.data();
    if (piece.size() / term.element_bytes < elements) shortest = term.rank;
    elements = piece.size() / term.element_bytes;
    if (elements == 0) return 0;
  }
  lacking_ = shortest;
  return elements == left ? left : elements / reduction.granularity * reduction.granularity;
}

void Exchange::consume_terms(const ActiveReduction& reduction, size_t elements) {
  for (const Term& term : reduction.terms) {
    if (term.own != nullptr) continue;
    Peer& peer = peers_[term.rank];
    Incoming& item = peer.incoming[peer.next_incoming];
    item.advance(elements * term.element_bytes);
    if (item.source == nullptr) peer.channel->consume(elements * term.element_bytes);
    if (item.done < item.bytes) continue;
    if (item.source == nullptr) {
      peer.channel->end_read();
    } else {
      peer.channel->acknowledge();
    }
    ++peer.next_incoming;
  }
}

// One piece at a time, so that results of other ranks are read while they are still in the cache.
void Exchange::step_reductions(bool* moved) {
  if (next_reduction_ == reductions_.size()) return;
  ActiveReduction& reduction = reductions_[next_reduction_];
  const size_t elements = available_elements(reduction);
  if (elements == 0) return;
  std::byte* const destination = reduction.destination + reduction.done * reduction.element_bytes;
  reduction.function(destination, sources_.data(), reduction.terms.size(), elements);
  reduction.done += elements;
  if (reduction.ready != nullptr) *reduction.ready = reduction.done * reduction.element_bytes;
  *moved = true;
  consume_terms(reduction, elements);
  if (reduction.done == reduction.elements) ++next_reduction_;
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (peers_[number].channel != nullptr) step_outgoing(number, peers_[number], moved);
  }
}

bool Exchange::is_over(uint32_t number) const {
  const Peer& peer = peers_[number];
  if (peer.channel == nullptr) return true;
  if (peer.has_outgoing() || peer.has_incoming()) return false;
  return is_acknowledged(number);
}

bool Exchange::is_acknowledged(uint32_t number) const {
  const Peer& peer = peers_[number];
  return peer.outgoing.empty() || !peer.channel->is_direct() ||
         peer.channel->acknowledged() >= communicator_.direct_count(rank_of(number), lane_of(number));
}

bool Exchange::needs(uint32_t number) {
  Peer& peer = peers_[number];
  if (peer.channel == nullptr) return false;
  if (peer.has_outgoing() || !is_acknowledged(number)) return true;
  std::vector<size_t> missing;
  for (size_t index = peer.next_incoming; index < peer.incoming.size(); ++index) {
    const Incoming& item = peer.incoming[index];
    if (item.may_be_direct) return true;  // the writer waits for the acknowledgement of this rank
    missing.push_back(item.bytes - item.done);
  }
  return !peer.channel->holds(missing);
}

bool Exchange::is_over() const {
  if (next_reduction_ < reductions_.size()) return false;  // a single rank has reductions without items
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (!is_over(number)) return false;
  }
  return true;
}

}  // namespace softnpu::hccl
