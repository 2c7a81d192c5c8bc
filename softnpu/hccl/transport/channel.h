// A stream of bytes to one other rank and one back, in one lane.
//
// Nothing here blocks: a call moves what it can and says how much that was. Reading and writing are two sides that two threads
// may use at once; each side is for one thread at a time. What is written is a row of items whose sizes both ranks know;
// end_write() and end_read() mark their ends, so that every item begins aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace softnpu::hccl {

// Collectives and messages between two ranks do not wait for each other.
enum class Lane : uint32_t { kCollective, kMessage };
constexpr size_t kLanes = 2;

class Channel {
 public:
  virtual ~Channel() = default;

  // Takes bytes from the front of [data, data + bytes) and returns how many.
  virtual size_t write(const std::byte* data, size_t bytes) = 0;
  virtual void end_write() = 0;

  // Bytes that have arrived, in one piece and aligned to 16 if the item's begin is; as many as are there, at most `most`.
  virtual std::span<const std::byte> peek(size_t most) = 0;
  // Drops bytes that peek() showed.
  virtual void consume(size_t bytes) = 0;
  // peek, copy and consume in one.
  virtual size_t read(std::byte* data, size_t bytes) = 0;
  virtual void end_read() = 0;

  // Lets the other rank notice what was written or consumed since the last call.
  virtual void flush_writes() = 0;
  virtual void flush_reads() = 0;

  // Whether items with these sizes, the next ones to be read, have arrived completely.
  virtual bool holds(std::span<const size_t> items) = 0;

  // Empty while the connection works.
  virtual std::string problem() const = 0;
  // What poll() can wait for; -1 for shared memory.
  virtual int file() const { return -1; }

  // Direct items: the writer only says where the bytes are, and the reader acknowledges when it has used them.
  virtual bool is_direct() const { return false; }
  virtual void acknowledge() {}
  // Acknowledged by the other rank since the beginning.
  virtual uint64_t acknowledged() const { return 0; }
};

}  // namespace softnpu::hccl
