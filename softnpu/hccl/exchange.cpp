#include "hccl/exchange.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "hccl/library.h"
#include "runtime/base/futex.h"

namespace softnpu::hccl {
namespace {

constexpr auto kSlice = std::chrono::milliseconds(500);     // of a sleep; then processes of peers are looked at
constexpr auto kMixedSlice = std::chrono::milliseconds(1);  // where both shared memory and sockets are waited for
constexpr size_t kReducePiece = size_t{128} << 10;
constexpr size_t kPieceAlignment = 16;
constexpr int kSpins = 150;          // some 10 us, if each rank has a core: a wake-up costs about that much
constexpr int kSpinsIfCrowded = 20;  // else

int spins_for(Communicator& communicator) {
  static const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return long(communicator.size()) <= cores ? kSpins : kSpinsIfCrowded;
}

// The device address of memory that kernels see at `alias`.
const void* device_address(const std::byte* alias) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(alias) - static_cast<uintptr_t>(driver()->alias_offset));
}

}  // namespace

Exchange::Exchange(Communicator& communicator, Lane lane)
    : communicator_(communicator), lane_(lane), peers_(communicator.size()), next_look_(Deadline::after(kSlice)) {}

void Exchange::greet(uint32_t number, const Header& own, const Header& expected) {
  greet_receiver(number, own);
  greet_sender(number, expected);
}

void Exchange::greet_receiver(uint32_t number, const Header& own) {
  Peer& peer = peers_[number];
  peer.channel = &communicator_.channel(number, lane_);
  op_ = own.op;
  Outgoing item;
  item.is_header = true;
  item.header = own;
  item.bytes = sizeof item.header;
  peer.outgoing.push_back(item);
}

void Exchange::greet_sender(uint32_t number, const Header& expected) {
  Peer& peer = peers_[number];
  peer.channel = &communicator_.channel(number, lane_);
  op_ = expected.op;
  Incoming item;
  item.kind = Kind::kHeader;
  item.expected = expected;
  item.bytes = sizeof item.header;
  peer.incoming.push_back(item);
}

void Exchange::send(uint32_t number, const std::byte* data, size_t bytes, const size_t* ready) {
  if (bytes == 0) return;
  Outgoing item;
  item.data = data;
  item.bytes = bytes;
  item.ready = ready;
  item.may_be_direct = bytes >= kDirectBytes && peers_[number].channel->is_direct();
  peers_[number].outgoing.push_back(item);
}

void Exchange::receive(uint32_t number, std::byte* data, size_t bytes) {
  if (bytes == 0) return;
  Incoming item;
  item.data = data;
  item.bytes = bytes;
  item.may_be_direct = bytes >= kDirectBytes && peers_[number].channel->is_direct();
  peers_[number].incoming.push_back(item);
}

void Exchange::reduce(ReduceFunction function, size_t element_bytes, std::byte* destination, const std::byte* own, size_t bytes) {
  reduction_ = {function, element_bytes, destination, own, bytes, 0};
  if (bytes == 0) return;
  sources_.resize(peers_.size());
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (number == communicator_.rank()) continue;
    receive(number, nullptr, bytes);
    peers_[number].incoming.back().kind = Kind::kReduce;
  }
}

// --- moving ---

Status Exchange::step(bool* moved) {
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    Peer& peer = peers_[number];
    if (peer.channel == nullptr) continue;
    step_outgoing(number, peer, moved);
    SOFTNPU_RETURN_IF_ERROR(step_incoming(number, peer, moved));
  }
  SOFTNPU_RETURN_IF_ERROR(step_reduction(moved));
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
  while (peer.next_outgoing < peer.outgoing.size()) {
    Outgoing& item = peer.outgoing[peer.next_outgoing];
    const size_t ready = item.ready == nullptr ? item.bytes : *item.ready;
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
        ++communicator_.direct_count(number, lane_);
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
    return Status(HCCL_E_TCP_TRANSFER,
                  text("what rank ", number, " sent is damaged: ", item.descriptor.bytes, " bytes in place of ", item.bytes));
  }
  Result<const std::byte*> source =
      communicator_.memory(number).find({item.descriptor.file, item.descriptor.inode, item.descriptor.offset}, item.bytes);
  if (!source.ok()) return source.take_status();
  item.source = source.value();
  return true;
}

Status Exchange::step_incoming(uint32_t number, Peer& peer, bool* moved) {
  while (peer.next_incoming < peer.incoming.size()) {
    Incoming& item = peer.incoming[peer.next_incoming];
    Result<bool> is_described = read_descriptor(number, peer, item, moved);
    if (!is_described.ok()) return is_described.take_status();
    if (!is_described.value() || item.kind == Kind::kReduce) return {};
    if (item.source != nullptr) {
      std::memcpy(item.data, item.source, item.bytes);
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
    item.done += got;
    if (item.done < item.bytes) continue;
    peer.channel->end_read();
    ++peer.next_incoming;
    if (item.kind == Kind::kHeader) {
      SOFTNPU_RETURN_IF_ERROR(check_header(item.header, item.expected, number, communicator_.rank()));
    }
  }
  return {};
}

Status Exchange::step_reduction(bool* moved) {
  while (reduction_.done < reduction_.bytes) {
    size_t bytes = std::min(reduction_.bytes - reduction_.done, kReducePiece);
    for (uint32_t number = 0; number < peers_.size() && bytes > 0; ++number) {
      if (number == communicator_.rank()) {
        sources_[number] = reduction_.own + reduction_.done;
        continue;
      }
      Peer& peer = peers_[number];
      const bool is_there = peer.next_incoming < peer.incoming.size() && peer.incoming[peer.next_incoming].kind == Kind::kReduce;
      if (!is_there) return {};
      const Incoming& item = peer.incoming[peer.next_incoming];
      if (item.source != nullptr) {
        sources_[number] = item.source + reduction_.done;
        continue;
      }
      if (item.may_be_direct && item.described < sizeof item.descriptor) return {};
      const std::span<const std::byte> piece = peer.channel->peek(bytes);
      sources_[number] = piece.data();
      bytes = piece.size();
    }
    if (reduction_.done + bytes < reduction_.bytes) bytes = bytes / kPieceAlignment * kPieceAlignment;
    if (bytes == 0) return {};
    reduction_.function(reduction_.destination + reduction_.done, sources_.data(), sources_.size(),
                        bytes / reduction_.element_bytes);
    reduction_.done += bytes;
    *moved = true;
    const bool is_complete = reduction_.done == reduction_.bytes;
    for (uint32_t number = 0; number < peers_.size(); ++number) {
      if (number == communicator_.rank()) continue;
      Peer& peer = peers_[number];
      const bool is_direct = peer.incoming[peer.next_incoming].source != nullptr;
      if (!is_direct) peer.channel->consume(bytes);
      if (!is_complete) continue;
      if (is_direct) {
        peer.channel->acknowledge();
      } else {
        peer.channel->end_read();
      }
      ++peer.next_incoming;
    }
    for (uint32_t number = 0; number < peers_.size(); ++number) {
      if (number != communicator_.rank()) step_outgoing(number, peers_[number], moved);
    }
  }
  return {};
}

bool Exchange::is_over(uint32_t number) const {
  const Peer& peer = peers_[number];
  if (peer.channel == nullptr) return true;
  if (peer.next_outgoing < peer.outgoing.size() || peer.next_incoming < peer.incoming.size()) return false;
  return is_acknowledged(number);
}

bool Exchange::is_acknowledged(uint32_t number) const {
  const Peer& peer = peers_[number];
  return peer.outgoing.empty() || !peer.channel->is_direct() ||
         peer.channel->acknowledged() >= communicator_.direct_count(number, lane_);
}

bool Exchange::needs(uint32_t number) {
  Peer& peer = peers_[number];
  if (peer.channel == nullptr) return false;
  if (peer.next_outgoing < peer.outgoing.size() || !is_acknowledged(number)) return true;
  std::vector<size_t> missing;
  for (size_t index = peer.next_incoming; index < peer.incoming.size(); ++index) {
    const Incoming& item = peer.incoming[index];
    if (item.may_be_direct) return true;  // its writer waits for this rank
    missing.push_back(item.bytes - (item.kind == Kind::kReduce ? reduction_.done : item.done));
  }
  return !peer.channel->holds(missing);
}

bool Exchange::is_over() const {
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (!is_over(number)) return false;
  }
  return true;
}

// --- waiting ---

Status Exchange::run() {
  const int most_spins = spins_for(communicator_);
  const std::chrono::seconds limit = communicator_.settings().exec_timeout;
  int spins = 0;
  Deadline timeout;
  while (true) {
    bool moved = false;
    SOFTNPU_RETURN_IF_ERROR(step(&moved));
    if (is_over()) return {};
    if (communicator_.has_failed()) return communicator_.failure();
    if (std::exchange(has_moved_, false)) {
      spins = 0;
      continue;
    }
    if (++spins < most_spins) {
      cpu_relax();
      continue;
    }
    if (spins == most_spins) timeout = limit.count() == 0 ? Deadline::never() : Deadline::after(limit);
    SOFTNPU_RETURN_IF_ERROR(wait(timeout));
  }
}

// A peer that left or died may have written before what is still missing, so that its fate counts only if nothing moves after it
// was seen.
Status Exchange::wait(Deadline timeout) {
  const bool asks_system = next_look_.passed();
  if (asks_system) next_look_ = Deadline::after(kSlice);
  const Status problem = find_problem(asks_system);
  if (!problem.ok()) {
    bool moved = false;
    SOFTNPU_RETURN_IF_ERROR(step(&moved));
    if (moved || is_over()) return {};
    return problem.copy();
  }
  if (timeout.passed()) return timed_out();
  const Deadline slice = Deadline::after(kSlice);
  return sleep(timeout.at() < slice.at() ? timeout : slice);
}

Status Exchange::find_problem(bool asks_system) {
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (is_over(number)) continue;
    Status fate = communicator_.peer_fate(number);
    if (!fate.ok() && communicator_.peer_has_failed(number)) return fate;
    if (!needs(number)) continue;
    const RankInfo& info = communicator_.info(number);
    const std::string problem = peers_[number].channel->problem();
    const bool may_still_come = problem.empty() && !communicator_.shares_memory(number);
    if (!fate.ok() && !may_still_come) return fate;
    if (!problem.empty()) return {HCCL_E_REMOTE, text("the connection to ", info.to_text(), " broke: ", problem)};
    if (asks_system && !communicator_.peer_is_alive(number)) {
      return {HCCL_E_REMOTE, text("the process of ", info.to_text(), " has ended")};
    }
  }
  return {};
}

Status Exchange::timed_out() const {
  std::string waited;
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (is_over(number)) continue;
    const Peer& peer = peers_[number];
    const bool has_come = peer.incoming.empty() || peer.next_incoming > 0;
    waited +=
        text(waited.empty() ? "" : "; ", communicator_.info(number).to_text(), has_come ? " stopped in it" : " did not call it");
  }
  return {HCCL_E_TIMEOUT, text("rank ", communicator_.rank(), " waited ", communicator_.settings().exec_timeout.count(),
                               " s (HCCL_EXEC_TIMEOUT) in ", function_name(op_), ": ", waited)};
}

Status Exchange::sleep(Deadline until) {
  std::vector<pollfd> files;
  bool shares_memory = false;
  for (uint32_t number = 0; number < peers_.size(); ++number) {
    if (is_over(number) || !needs(number)) continue;
    const Peer& peer = peers_[number];
    if (peer.channel->file() < 0) {
      shares_memory = true;
      continue;
    }
    const bool waits_to_read = peer.next_incoming < peer.incoming.size();
    bool waits_to_write = false;
    if (peer.next_outgoing < peer.outgoing.size()) {
      const Outgoing& item = peer.outgoing[peer.next_outgoing];
      waits_to_write = item.ready == nullptr || *item.ready > item.done;
    }
    files.push_back({peer.channel->file(), static_cast<short>((waits_to_read ? POLLIN : 0) | (waits_to_write ? POLLOUT : 0)), 0});
    files.push_back({communicator_.control_file(number), POLLIN, 0});
  }
  if (!files.empty() || communicator_.segment() == nullptr) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until.at() - Deadline::Clock::now()) + kMixedSlice;
    poll(files.data(), files.size(), static_cast<int>(shares_memory ? kMixedSlice.count() : std::max<int64_t>(left.count(), 0)));
    return {};
  }
  Segment& segment = *communicator_.segment();
  const uint32_t own = communicator_.segment_rank();
  const uint32_t ticket = segment.prepare_sleep(own);
  bool moved = false;
  const Status status = step(&moved);
  const bool has_news = !status.ok() || moved || is_over() || communicator_.has_failed() || !find_problem(false).ok();
  if (!has_news) segment.sleep(own, ticket, until);
  segment.end_sleep(own);
  return status.copy();
}

}  // namespace softnpu::hccl
