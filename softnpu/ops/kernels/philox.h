// Random bits by position: Philox4x32-10 (Salmon et al., SC 2011) with the key `seed` and the counter (offset, block).
//
// The four words of a block depend only on seed, offset and number of the block: they are the same on every thread, in every
// order and on every processor. Sequences with different offsets do not overlap, however long they are.
#pragma once

#include <array>
#include <cstdint>

namespace softnpu::ops::kernels {

struct Stream {
  uint64_t seed;
  uint64_t offset;
};

// Blocks are computed in batches, by vector instructions.
inline constexpr uint64_t kBatch = 64;  // words of 16 blocks
using Words = std::array<uint32_t, kBatch>;

// Words [batch * kBatch, (batch + 1) * kBatch) of a stream.
Words words_at(Stream stream, uint64_t batch);

// Standard normal numbers from pairs of words (2 i, 2 i + 1). The results are the same on every processor.
std::array<float, kBatch> normals_of(const Words& words);

// A sequence of words for algorithms that need an unknown number of them.
class Sequence {
 public:
  explicit Sequence(Stream stream) : stream_(stream) {}

  uint32_t next() {
    if (used_ == kBatch) {
      words_ = words_at(stream_, batch_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  uint64_t next_long() {
    const uint64_t high = next();
    return high << 32 | next();
  }
  // In (0, 1).
  double next_fraction() { return (double(next_long() >> 12) + 0.5) * 0x1p-52; }

 private:
  const Stream stream_;
  Words words_;
  uint64_t batch_ = 0;
  uint64_t used_ = kBatch;
};

}  // namespace softnpu::ops::kernels
