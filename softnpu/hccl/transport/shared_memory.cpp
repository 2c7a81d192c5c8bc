#include "hccl/transport/shared_memory.h"

#include <algorithm>
#include <cstring>

namespace softnpu::hccl {
namespace {

constexpr uint64_t kItemAlignment = 64;
constexpr size_t kMostAtOnce = size_t{64} << 10;  // a reader can start before a long write ends

uint64_t round_up(uint64_t position) { return (position + kItemAlignment - 1) / kItemAlignment * kItemAlignment; }

}  // namespace

SharedMemoryChannel::SharedMemoryChannel(Segment& segment, Lane lane, uint32_t own, uint32_t peer, bool is_direct)
    : segment_(segment),
      outgoing_(segment.ring(lane, own, peer)),
      incoming_(segment.ring(lane, peer, own)),
      outgoing_data_(segment.ring_data(lane, own, peer)),
      incoming_data_(segment.ring_data(lane, peer, own)),
      capacity_(segment.ring_bytes()),
      peer_(peer),
      is_direct_(is_direct) {}

size_t SharedMemoryChannel::write(const std::byte* data, size_t bytes) {
  const auto space = [&] { return written_ >= known_consumed_ + capacity_ ? 0 : known_consumed_ + capacity_ - written_; };
  if (space() < std::min(bytes, capacity_ / 2)) known_consumed_ = outgoing_.consumed.load(std::memory_order_seq_cst);
  bytes = std::min({bytes, size_t(space()), kMostAtOnce});
  if (bytes == 0) return 0;
  const size_t place = written_ % capacity_;
  const size_t first = std::min(bytes, capacity_ - place);
  std::memcpy(outgoing_data_ + place, data, first);
  std::memcpy(outgoing_data_, data + first, bytes - first);
  written_ += bytes;
  outgoing_.written.store(written_, std::memory_order_seq_cst);
  has_written_ = true;
  return bytes;
}

// The gap up to the next item counts as written. It may exceed the capacity by a few bytes; space() in write() allows for that.
void SharedMemoryChannel::end_write() { written_ = round_up(written_); }

std::span<const std::byte> SharedMemoryChannel::peek(size_t most) {
  const uint64_t written = incoming_.written.load(std::memory_order_seq_cst);
  if (written <= consumed_) return {};  // end_read() may have skipped a gap that the writer has not counted yet
  const uint64_t there = written - consumed_;
  if (there > capacity_) {
    is_damaged_.store(true, std::memory_order_relaxed);
    return {};
  }
  const size_t place = consumed_ % capacity_;
  return {incoming_data_ + place, std::min({most, size_t(there), capacity_ - place})};
}

void SharedMemoryChannel::consume(size_t bytes) {
  consumed_ += bytes;
  incoming_.consumed.store(consumed_, std::memory_order_seq_cst);
  has_consumed_ = true;
}

size_t SharedMemoryChannel::read(std::byte* data, size_t bytes) {
  size_t total = 0;
  while (total < bytes) {
    const std::span<const std::byte> piece = peek(std::min(bytes - total, kMostAtOnce));
    if (piece.empty()) break;
    std::memcpy(data + total, piece.data(), piece.size());
    consume(piece.size());
    total += piece.size();
  }
  return total;
}

void SharedMemoryChannel::end_read() {
  consumed_ = round_up(consumed_);
  incoming_.consumed.store(consumed_, std::memory_order_seq_cst);
  has_consumed_ = true;
}

void SharedMemoryChannel::flush_writes() {
  if (!std::exchange(has_written_, false)) return;
  segment_.wake(peer_);
}

void SharedMemoryChannel::flush_reads() {
  if (!std::exchange(has_consumed_, false)) return;
  segment_.wake(peer_);
}

void SharedMemoryChannel::acknowledge() {
  incoming_.acknowledged.fetch_add(1, std::memory_order_seq_cst);
  has_consumed_ = true;
}

bool SharedMemoryChannel::holds(std::span<const size_t> items) {
  uint64_t end = consumed_;  // a part of the first item may have been read
  for (size_t index = 0; index < items.size(); ++index) end = (index == 0 ? end : round_up(end)) + items[index];
  return incoming_.written.load(std::memory_order_seq_cst) >= end;
}

std::string SharedMemoryChannel::problem() const {
  return is_damaged_.load(std::memory_order_relaxed) ? "its counters in shared memory are damaged" : "";
}

}  // namespace softnpu::hccl
