// The check of arguments in phase one: data types, shapes and numbers that the kernel does not support are refused.
//
//   if (passed_before(executor)) return ACLNN_SUCCESS;                  // some nanoseconds
//   SOFTNPU_RETURN_IF_ERROR(check_arguments(executor));
//
// The signature of a call that passed is kept as a hash, so that later calls with the same shapes and types are not checked
// again. Structured operators of ATen are checked by their meta functions. In three cases the kernel runs once on other tensors,
// so that phase one can report what the kernel does not support: a tensor has a rare type, the combination of types
// is new, or a Scalar does not fit the types of the tensors.
#pragma once

#include <array>
#include <atomic>

#include "ops/calls/executor.h"

namespace softnpu::ops {

// Whether the arguments of `executor` fit its operation. Thread-safe.
Status check_arguments(const Executor& executor);

namespace detail {

// A slot holds the hash of the last call that passed. A call whose hash was overwritten is checked again.
inline constexpr size_t kRemembered = 1 << 14;
extern std::array<std::atomic<uint64_t>, kRemembered> remembered;
inline std::atomic<uint64_t>& slot_of(uint64_t hash) { return remembered[hash >> 32 & (kRemembered - 1)]; }

// A sum of products of two words each. The products do not depend on each other, so that they run in parallel.
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

// Whether tensors of all types can hold the number. This is the usual case, and costs a comparison.
inline bool fits_everywhere(const at::Scalar& scalar) {
  constexpr int64_t kLargest = 127;
  if (scalar.isFloatingPoint()) {
    const double value = scalar.toDouble();
    return value >= -double(kLargest) && value <= double(kLargest);
  }
  if (scalar.isComplex()) return false;
  if (scalar.isUnsigned()) return scalar.toUInt64() <= uint64_t(kLargest);
  return scalar.isBoolean() || uint64_t(scalar.toLong()) + uint64_t(kLargest) <= uint64_t(2 * kLargest);
}

// Whether the tensors of a call can hold the number. For numbers that do not fit everywhere.
bool fits_tensors(const at::Scalar& scalar, const Executor& executor);

// Whether the kernel may refuse the values of the Scalars, not only their types.
inline bool has_unusual_number(const Executor& executor) {
  for (const at::Scalar& scalar : executor.scalars) {
    if (!fits_everywhere(scalar) && !fits_tensors(scalar, executor)) [[unlikely]]
      return true;
  }
  return false;
}

uint64_t hash_of_values(const Executor& executor);

[[gnu::always_inline]] inline uint64_t hash_of(const Executor& executor) {
  Hash hash(reinterpret_cast<uintptr_t>(executor.operation));
  for (const TensorView& view : executor.views) hash.add(uint64_t(view.dtype) << 8 | unsigned(view.ndim), uint64_t(view.numel));
  const size_t count = executor.numbers.size();
  const int64_t* const numbers = executor.numbers.data();
  for (size_t i = 0; i + 1 < count; i += 2) hash.add(uint64_t(numbers[i]), uint64_t(numbers[i + 1]));
  hash.add(executor.absent_scalars, count % 2 == 0 ? 0 : uint64_t(numbers[count - 1]));
  // Meta functions and rules depend on values, such as an exponent. Other functions depend on whether a Scalar is 0, as a
  // divisor.
  const Rules* const rules = executor.operation->rules;
  const bool by_value = executor.operation->meta != nullptr || (rules != nullptr && rules->uses_scalars);
  for (const at::Scalar& scalar : executor.scalars) {
    const uint64_t bits = scalar.isIntegral(/*includeBool=*/false) ? bits_of(scalar) : 1;
    hash.add(uint64_t(scalar.type()), by_value ? bits : uint64_t(bits == 0));
  }
  for (const Executor::Value& value : executor.values) hash.add(uint64_t(value.integer), 0);
  for (const Executor::Slice& slice : executor.slices) hash.add(slice.count, slice.present);
  if (has_unusual_number(executor)) [[unlikely]]
    hash.add(hash_of_values(executor), 1);
  return hash.value();
}

}  // namespace detail

// Whether a call with the same signature has passed check_arguments(). May be false though one has: its slot was overwritten.
[[gnu::always_inline]] inline bool passed_before(const Executor& executor) {
  const Operation& operation = *executor.operation;
  const bool unchecked = operation.meta == nullptr && operation.dtypes == 0 && operation.shapes == ShapeRule::kNone &&
                         operation.rules == nullptr && !operation.sync;
  if (unchecked && !detail::has_unusual_number(executor)) return true;
  const uint64_t hash = detail::hash_of(executor);
  return detail::slot_of(hash).load(std::memory_order_relaxed) == hash;
}

}  // namespace softnpu::ops
