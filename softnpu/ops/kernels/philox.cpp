#include "ops/kernels/philox.h"

// No fused operations: results must be the same for all targets below.
#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno", "no-trapping-math")

#if defined(__x86_64__)
#define SOFTNPU_EACH_TARGET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SOFTNPU_EACH_TARGET
#endif

namespace softnpu::ops::kernels {
namespace {

constexpr int kLanes = kBatch / 4;

SOFTNPU_EACH_TARGET void make_words(uint64_t seed, uint64_t offset, uint64_t first_block, uint32_t* words) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t block = first_block + uint64_t(lane);
    c0[lane] = uint32_t(block);
    c1[lane] = uint32_t(block >> 32);
    c2[lane] = uint32_t(offset);
    c3[lane] = uint32_t(offset >> 32);
  }
  uint32_t low_key = uint32_t(seed);
  uint32_t high_key = uint32_t(seed >> 32);
#pragma GCC unroll 1
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 1  // an unrolled loop would not be vectorized
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t first = uint64_t(0xD2511F53) * c0[lane];
      const uint64_t second = uint64_t(0xCD9E8D57) * c2[lane];
      c0[lane] = uint32_t(second >> 32) ^ c1[lane] ^ low_key;
      c1[lane] = uint32_t(second);
      c2[lane] = uint32_t(first >> 32) ^ c3[lane] ^ high_key;
      c3[lane] = uint32_t(first);
    }
    low_key += 0x9E3779B9;
    high_key += 0xBB67AE85;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    words[4 * lane] = c0[lane];
    words[4 * lane + 1] = c1[lane];
    words[4 * lane + 2] = c2[lane];
    words[4 * lane + 3] = c3[lane];
  }
}

// The Box-Muller transform. The logarithm is the exponent plus 2 artanh(s) of a mantissa near 1. Sine and cosine are Taylor
// series around the nearest quarter turn. The errors are about 1e-7.
SOFTNPU_EACH_TARGET void make_normals(const uint32_t* words, float* values) {
  constexpr uint32_t kRootHalf = 0x3f3504f3;  // bits of sqrt(1/2): mantissas are between sqrt(1/2) and sqrt(2)
  constexpr int kPairs = kBatch / 2;
  int32_t first[kPairs], second[kPairs];
  for (int pair = 0; pair < kPairs; ++pair) {
    first[pair] = int32_t(words[2 * pair] >> 1);
    second[pair] = int32_t(words[2 * pair + 1] >> 8);
  }
  float radii[kPairs], cosines[kPairs], sines[kPairs];
#pragma GCC unroll 1
  for (int pair = 0; pair < kPairs; ++pair) {
    const float u = (float(first[pair]) + 0.5f) * 0x1p-31f;
    const uint32_t shifted = __builtin_bit_cast(uint32_t, u) - kRootHalf;
    const float exponent = float(int32_t(shifted) >> 23);
    const float mantissa = __builtin_bit_cast(float, (shifted & 0x007fffff) + kRootHalf);
    const float s = (mantissa - 1) / (mantissa + 1);
    const float t = s * s;
    const float log = exponent * 0.69314718f + 2 * s * (1 + t * (1.0f / 3 + t * (1.0f / 5 + t * (1.0f / 7 + t * (1.0f / 9)))));
    radii[pair] = -2 * log;
  }
  for (int pair = 0; pair < kPairs; ++pair)
    radii[pair] = __builtin_sqrtf(radii[pair]);  // a loop of its own, because it is not vectorized
#pragma GCC unroll 1
  for (int pair = 0; pair < kPairs; ++pair) {
    const float turn = float(second[pair]) * 0x1p-24f;
    const int32_t quarter = int32_t(turn * 4 + 0.5f);
    const float x = (turn - float(quarter) * 0.25f) * 6.2831853f;
    const float q = x * x;
    const float sine = x * (1 - q * (1.0f / 6) * (1 - q * (1.0f / 20) * (1 - q * (1.0f / 42) * (1 - q * (1.0f / 72)))));
    const float cosine =
        1 - q * (1.0f / 2) * (1 - q * (1.0f / 12) * (1 - q * (1.0f / 30) * (1 - q * (1.0f / 56) * (1 - q * (1.0f / 90)))));
    const float along = quarter & 1 ? cosine : sine;
    const float across = quarter & 1 ? sine : cosine;
    cosines[pair] = radii[pair] * ((quarter + 1) & 2 ? -across : across);
    sines[pair] = radii[pair] * (quarter & 2 ? -along : along);
  }
  for (int pair = 0; pair < kPairs; ++pair) {
    values[2 * pair] = cosines[pair];
    values[2 * pair + 1] = sines[pair];
  }
}

}  // namespace

Words words_at(Stream stream, uint64_t batch) {
  Words words;
  make_words(stream.seed, stream.offset, batch * kLanes, words.data());
  return words;
}

std::array<float, kBatch> normals_of(const Words& words) {
  std::array<float, kBatch> values;
  make_normals(words.data(), values.data());
  return values;
}

}  // namespace softnpu::ops::kernels
