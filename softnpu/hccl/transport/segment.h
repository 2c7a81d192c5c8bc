// Shared memory between the ranks of one host. It has, for each rank, a futex on which the rank sleeps and the rank's state; and
// for each pair of ranks and each lane a ring buffer.
//
// The memory is a file without a name (memfd). One rank creates it, the others open it under /proc while the communicator is set
// up. So only processes of the same user can open it, and the kernel frees it when the last process ends, even after a crash.
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

enum class RankState : uint32_t { kRunning, kLeft, kFailed };

class Segment {
 public:
  // One direction between two ranks. The counters never go back.
  struct Ring {
    alignas(64) std::atomic<uint64_t> written;       // bytes
    alignas(64) std::atomic<uint64_t> consumed;      // bytes
    alignas(64) std::atomic<uint64_t> acknowledged;  // direct items, see channel.h
  };

  // Uses at most `most_bytes` if that leaves 16 KiB for each ring.
  static Result<std::unique_ptr<Segment>> create(uint32_t ranks, uint64_t token, size_t most_bytes);
  // Opens file `number` of process `pid`. HCCL_E_INTERNAL if that is not the segment with this token.
  static Result<std::unique_ptr<Segment>> open(int pid, int number, uint32_t ranks, uint64_t token);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int file() const { return file_; }
  // Closes the file; the memory stays mapped.
  void close_file();

  Ring& ring(Lane lane, uint32_t from, uint32_t to);
  std::byte* ring_data(Lane lane, uint32_t from, uint32_t to);
  size_t ring_bytes() const { return ring_bytes_; }

  // Wakes the threads of a rank that sleep in sleep(). Without such threads it makes no system call.
  void wake(uint32_t rank);
  // Several threads of a rank may sleep. Order: prepare_sleep(), check once more for work, sleep() if there is none, end_sleep().
  uint32_t prepare_sleep(uint32_t rank);
  void sleep(uint32_t rank, uint32_t ticket, Deadline deadline);
  void end_sleep(uint32_t rank);

  // Stores the final state of a rank and wakes all ranks. Later calls for the same rank have no effect.
  void set_state(uint32_t rank, RankState state, const std::string& reason);
  RankState state(uint32_t rank) const;
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
