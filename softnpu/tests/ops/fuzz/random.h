// Random numbers that are the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace softnpu::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : state_(mix(seed) ^ mix(stream + 0x632BE59BD9B4E019)) {}

  uint64_t bits() { return mix(state_ += kStep); }
  // 0 to count - 1.
  int64_t below(int64_t count) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(count)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return uniform() < probability; }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  // Close to a normal distribution, and without functions that differ between machines.
  double normal() { return (uniform() + uniform() + uniform() + uniform() - 2) * 1.7; }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  }

  uint64_t state_;
};

}  // namespace softnpu::fuzz
