// Shared memory between the ranks of one host: for each rank a bell to sleep at and a word about its fate, for each two ranks and
// each lane a ring of bytes.
//
// The memory is a file without a name (memfd), made by one rank and opened by the others under /proc while the communicator is
// set up. So only processes of the same user can open it, and nothing is left when processes end, however they end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hccl/errors.h"
#include "hccl/transport/channel.h"
#include "runtime/base/deadline.h"

namespace softnpu::hccl {

enum class Fate : uint32_t { kRunning, kLeft, kFailed };

class Segment {
 public:
  // One direction between two ranks. Positions count bytes since the beginning.
  struct Ring {
    alignas(64) std::atomic<uint64_t> written;
    alignas(64) std::atomic<uint64_t> consumed;
    alignas(64) std::atomic<uint64_t> acknowledged;
  };

  static Result<std::unique_ptr<Segment>> create(uint32_t ranks, uint64_t token, size_t most_bytes);
  // The file `number` of process `pid`, which must be the segment with that token.
  static Result<std::unique_ptr<Segment>> open(int pid, int number, uint32_t ranks, uint64_t token);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int file() const { return file_; }
  // The mapping stays.
  void close_file();

  Ring& ring(Lane lane, uint32_t from, uint32_t to);
  std::byte* ring_data(Lane lane, uint32_t from, uint32_t to);
  size_t ring_bytes() const { return ring_bytes_; }

  // Wakes the threads of a rank that sleep in sleep(), if there are any.
  void ring_bell(uint32_t rank);
  // Several threads of a rank may sleep. Order: prepare_sleep(), look once more for something to do, then sleep() or not, then
  // end_sleep().
  uint32_t prepare_sleep(uint32_t rank);
  void sleep(uint32_t rank, uint32_t ticket, Deadline deadline);
  void end_sleep(uint32_t rank);

  // Once per rank: the first call counts. Everybody is woken.
  void set_fate(uint32_t rank, Fate fate, const std::string& reason);
  Fate fate(uint32_t rank) const;
  std::string reason(uint32_t rank) const;

 private:
  struct Head;
  struct Rank;

  Segment() = default;
  Status map(size_t bytes);
  Rank& rank(uint32_t number) const;

  int file_ = -1;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  uint32_t ranks_ = 0;
  size_t ring_bytes_ = 0;
};

}  // namespace softnpu::hccl
