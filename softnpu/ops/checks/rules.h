// The rules of the device table for shapes, types and numbers, as constants that codegen/device_rules.py writes, and their check.
// codegen/argument_rules.py explains how a row of the table writes them.
//
//   SOFTNPU_RETURN_IF_ERROR(check_rules(*operation.rules, executor));
#pragma once

#include <cstdint>
#include <span>

#include "ops/objects/objects.h"
#include "runtime/driver.h"

namespace softnpu::ops {

struct Executor;

// An argument of the function.
struct Argument {
  uint8_t parameter;  // index in Operation::parameters
  uint8_t position;   // index among the tensors, Scalars, values, or lists and arrays
};

// One entry of a pattern.
struct PatternItem {
  enum Kind : uint8_t { kLiteral, kSize, kGroup };
  Kind kind;
  int8_t letter;  // kNoLetter: any size, or any sizes for a group
  int64_t value;  // of a literal
};
inline constexpr int8_t kNoLetter = -1;
inline constexpr int kMaxLetters = 16;

struct Pattern {
  Argument argument;
  const char* text;  // "weight[V, D]"
  std::span<const PatternItem> items;
  bool may_be_empty;  // for a list
};

// An instruction of a stack machine on integers. The last one of a condition is a comparison or a predicate, which pushes 0 or 1.
struct RuleStep {
  enum Code : uint8_t {
    kLiteral,  // pushes `value`
    kInteger,  // pushes the value of an argument
    kLetter,   // pushes the size of letter number `value`; for a group the product of its sizes
    kRank,
    kSize,  // pops the dimension
    kNumel,
    kCount,
    kItem,   // element of an array; pops its index, which may be negative
    kLeast,  // smallest element of an array; 0 if it is empty
    kMin,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kEqual,
    kUnequal,
    kLess,
    kLessEqual,
    kAxis,  // pops the dimension
    kAxes,  // arguments: an array, a tensor
    kSame,
    kSameBut,  // pops the dimension
    kBroadcasts,
    kReduced,     // pops keepdim; arguments: a tensor, an array, a tensor
    kReducedOne,  // pops keepdim, then the dimension
    kAlike,
    kDense,
    kByColumns,
    kSameDtype,
    kGiven,    // the argument is not null
    kDtypeIn,  // `value` has one bit per aclDataType
    kOr,       // separates alternatives; one of them must hold
  };
  Code code;
  int64_t value;
  uint8_t argument_count;
  Argument arguments[3];
};

struct Condition {
  const char* text;
  std::span<const RuleStep> steps;
};

struct Rules {
  std::span<const Pattern> patterns;
  std::span<const char* const> letters;
  std::span<const Condition> conditions;
  bool uses_scalars;  // a condition depends on the value of a Scalar
};

// The error message names the first rule that the arguments of `executor` break. Thread-safe.
Status check_rules(const Rules& rules, const Executor& executor);

}  // namespace softnpu::ops
