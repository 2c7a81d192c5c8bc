// A stream of bytes to one other rank and one back, in one lane. Another transport (RDMA, UCX, libfabric) is a class of this
// interface.
//
// Calls never block: they move as many bytes as possible and return the number. One thread may write while another thread reads;
// each direction is for one thread at a time. A stream is a sequence of items whose sizes both ranks know. end_write() and
// end_read() mark the end of an item, so that every item starts aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace softnpu::hccl {

// Collectives and messages between two ranks do not wait for each other. A reply tells the sender that the receiver expected the
// message and has received it.
enum class Lane : uint32_t { kCollective, kMessage, kReply };
constexpr size_t kLanes = 3;

class Channel {
 public:
  virtual ~Channel() = default;

  // Writes bytes from the front of [data, data + bytes); returns their number.
  virtual size_t write(const std::byte* data, size_t bytes) = 0;
  virtual void end_write() = 0;

  // Bytes that have arrived, contiguous, at most `most`. Aligned to 16 bytes if only multiples of 16 bytes of the item were
  // consumed.
  virtual std::span<const std::byte> peek(size_t most) = 0;
  // Drops bytes that peek() returned.
  virtual void consume(size_t bytes) = 0;
  // Copies bytes that have arrived and drops them; returns their number.
  virtual size_t read(std::byte* data, size_t bytes) = 0;
  virtual void end_read() = 0;

  // Wakes the other rank if bytes were written or consumed since the last call.
  virtual void flush_writes() = 0;
  virtual void flush_reads() = 0;

  // Whether the next items, which have these sizes, have arrived completely.
  virtual bool holds(std::span<const size_t> items) = 0;

  // Empty while the connection works.
  virtual std::string problem() const = 0;
  // The file for poll(); -1 for shared memory.
  virtual int file() const { return -1; }

  // Direct items: the writer sends the place of the bytes, and the reader acknowledges after it has read them there.
  virtual bool is_direct() const { return false; }
  virtual void acknowledge() {}
  // The number of direct items that the other rank has acknowledged.
  virtual uint64_t acknowledged() const { return 0; }
};

}  // namespace softnpu::hccl
