// What the rows of the device table demand of shapes, types and numbers: the data that the generator writes (see
// codegen/argument_rules.py for the words), and their check.
#pragma once

#include <cstdint>
#include <span>

#include "ops/objects.h"
#include "runtime/driver.h"

namespace softnpu::ops {

struct Executor;

// A parameter of the function.
struct Argument {
  uint8_t parameter;  // its number in Operation::parameters
  uint8_t position;   // its number among the tensors, Scalars, values, or lists and arrays
};

// One place of a pattern.
struct PatternItem {
  enum Kind : uint8_t { kLiteral, kSize, kGroup };
  Kind kind;
  int8_t letter;  // kNoLetter: any size, or any sizes
  int64_t value;  // of a literal
};
inline constexpr int8_t kNoLetter = -1;
inline constexpr int kMaxLetters = 16;

struct Pattern {
  Argument argument;
  const char* text;  // "weight[V, D]"
  std::span<const PatternItem> items;
  bool may_be_empty;  // a list
};

// A step of a stack machine on integers. A comparison or predicate ends a condition and pushes its truth.
struct RuleStep {
  enum Code : uint8_t {
    kLiteral,  // pushes `value`
    kInteger,  // pushes a number that is an argument
    kLetter,   // pushes the size of letter number `value`, the product of several
    kRank,
    kSize,  // pops the dimension
    kNumel,
    kCount,
    kItem,   // of an array; pops its number, which may count from the end
    kLeast,  // of an array; 0 if it is empty
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
    kAxes,  // of an array, then a tensor
    kSame,
    kSameBut,  // pops the dimension
    kBroadcasts,
    kReduced,     // pops keepdim; a tensor, an array, a tensor
    kReducedOne,  // pops keepdim, then the dimension
    kAlike,
    kDense,
    kByColumns,
    kSameDtype,
    kGiven,    // the argument was not left out
    kDtypeIn,  // `value` has one bit per aclDataType
    kOr,       // separates alternatives, of which one has to hold
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

// The first rule that the arguments of `executor` break, in words. Thread-safe.
Status check_rules(const Rules& rules, const Executor& executor);

// Whether a tensor of that shape broadcasts to the other.
bool broadcasts(const TensorView& from, const TensorView& to);

}  // namespace softnpu::ops
