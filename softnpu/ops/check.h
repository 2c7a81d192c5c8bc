// What phase one refuses beyond null: data types and shapes that the kernel cannot take.
//
// Shapes and types that passed are remembered by their hash, so that a call like an earlier one costs some nanoseconds. ATen's
// structured operators are asked themselves, through their meta functions; where a tensor has a rare type, the kernel is tried on
// other memory, so that the call itself says what the kernel lacks.
#pragma once

#include <array>
#include <atomic>

#include "ops/executor.h"

namespace softnpu::ops {

// Whether the arguments of `executor` fit its operation. Thread-safe.
Status check_arguments(const Executor& executor);

namespace detail {

// A slot holds the hash of the call that passed last; losing one only costs the check.
inline constexpr size_t kRemembered = 1 << 14;
extern std::array<std::atomic<uint64_t>, kRemembered> remembered;
inline std::atomic<uint64_t>& slot_of(uint64_t hash) { return remembered[hash >> 32 & (kRemembered - 1)]; }

// A sum of products of two words each, which do not wait for each other.
class Hash {
 public:
  explicit Hash(uint64_t seed) : sum_(seed) {}
  void add(uint64_t first, uint64_t second) {
    key_ += 0x9e3779b97f4a7c15u;
    const auto product = static_cast<unsigned __int128>(first ^ key_) * (second + ~key_);
    sum_ += uint64_t(product) ^ uint64_t(product >> 64);
  }
  uint64_t value() const { return sum_ | 1; }

 private:
  uint64_t key_ = 0x2545f4914f6cdd1du;
  uint64_t sum_;
};

inline uint64_t bits_of(const at::Scalar& integer) {
  return integer.isUnsigned() ? integer.toUInt64() : uint64_t(integer.toLong());
}

[[gnu::always_inline]] inline uint64_t hash_of(const Executor& executor) {
  Hash hash(reinterpret_cast<uintptr_t>(executor.operation));
  for (const TensorView& view : executor.views) hash.add(uint64_t(view.dtype) << 8 | unsigned(view.ndim), uint64_t(view.numel));
  const size_t count = executor.numbers.size();
  const int64_t* const numbers = executor.numbers.data();
  for (size_t i = 0; i + 1 < count; i += 2) hash.add(uint64_t(numbers[i]), uint64_t(numbers[i + 1]));
  hash.add(executor.absent_scalars, count % 2 == 0 ? 0 : uint64_t(numbers[count - 1]));
  for (const at::Scalar& scalar : executor.scalars) {
    const bool integral = scalar.isIntegral(/*includeBool=*/false);  // an exponent, for example
    hash.add(uint64_t(scalar.type()), integral ? bits_of(scalar) : 0);
  }
  for (const Executor::Value& value : executor.values) hash.add(uint64_t(value.integer), 0);
  for (const Executor::Slice& slice : executor.slices) hash.add(slice.count, slice.present);
  return hash.value();
}

}  // namespace detail

// Whether a call with such arguments has passed check_arguments(); false may also mean that nobody remembers.
[[gnu::always_inline]] inline bool passed_before(const Executor& executor) {
  const Operation& operation = *executor.operation;
  if (operation.meta == nullptr && operation.dtypes == 0 && operation.shapes == ShapeRule::kNone) return true;
  const uint64_t hash = detail::hash_of(executor);
  return detail::slot_of(hash).load(std::memory_order_relaxed) == hash;
}

}  // namespace softnpu::ops
