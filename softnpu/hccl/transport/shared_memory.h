// A channel through two ring buffers of a segment.
#pragma once

#include "hccl/transport/segment.h"

namespace softnpu::hccl {

class SharedMemoryChannel final : public Channel {
 public:
  // `own` and `peer` are indices of ranks in the segment. The segment outlives the channel.
  SharedMemoryChannel(Segment& segment, Lane lane, uint32_t own, uint32_t peer, bool is_direct);

  size_t write(const std::byte* data, size_t bytes) override;
  void end_write() override;
  std::span<const std::byte> peek(size_t most) override;
  void consume(size_t bytes) override;
  size_t read(std::byte* data, size_t bytes) override;
  void end_read() override;
  void flush_writes() override;
  void flush_reads() override;
  bool holds(std::span<const size_t> items) override;
  std::string problem() const override;
  bool is_direct() const override { return is_direct_; }
  void acknowledge() override;
  uint64_t acknowledged() const override { return outgoing_.acknowledged.load(std::memory_order_seq_cst); }

 private:
  Segment& segment_;
  Segment::Ring& outgoing_;
  Segment::Ring& incoming_;
  std::byte* const outgoing_data_;
  const std::byte* const incoming_data_;
  const size_t capacity_;
  const uint32_t peer_;
  const bool is_direct_;

  // For the writing thread.
  uint64_t written_ = 0;
  uint64_t known_consumed_ = 0;
  bool has_written_ = false;
  // For the reading thread.
  uint64_t consumed_ = 0;
  bool has_consumed_ = false;
  std::atomic<bool> is_damaged_{false};
};

}  // namespace softnpu::hccl
