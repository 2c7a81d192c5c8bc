// The innermost loops of the engine: one row of an elementwise operation, compiled for several instruction sets.
//
// Results are bit-equal to ATen: fused multiply-add where the loops of ATen for that instruction set use it, and nowhere else
// (these files are compiled without contraction); half precision computed in float and rounded once.
#pragma once

#include <cstdint>
#include <limits>

namespace softnpu::ops::engine {

inline constexpr int kMaxOperands = 4;

enum class Type : uint8_t { kFloat, kDouble, kHalf, kBFloat16, kInt8, kUInt8, kInt16, kInt32, kInt64, kBool };
inline constexpr int kTypes = 10;

// In brackets: the operands. `v` and `w` are host scalars.
enum class Op : uint8_t {
  kAdd,        // [a, b]: a + v * b
  kMul,        // [a, b]
  kDiv,        // [a, b]
  kMaximum,    // [a, b]: either NaN is the result
  kMinimum,    // [a, b]
  kAddScalar,  // [a]: a + w * v
  kMulScalar,  // [a]: a * v
  kDivScalar,  // [a]: a / v
  // [a, b], the output is bool
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  // [a]: a against v, the output is bool
  kEqScalar,
  kNeScalar,
  kLtScalar,
  kLeScalar,
  kGtScalar,
  kGeScalar,
  // [a]
  kNeg,
  kAbs,
  kRelu,
  kReciprocal,
  kFloor,
  kCeil,
  kTrunc,
  kRound,
  kCube,
  kClamp,              // [a]: at least v, at most w
  kLeakyRelu,          // [a]: a * v below 0
  kThresholdBackward,  // [gradient, x]: 0 where x <= v
  kLerp,               // [a, b]: a + v * (b - a)
  kAddcmul,            // [a, b, c]: a + v * b * c
  kAddcdiv,            // [a, b, c]: a + v * b / c
};
inline constexpr int kOps = int(Op::kAddcdiv) + 1;

// Host scalars, in each of the types that a loop computes in.
struct Values {
  double doubles[2];
  float floats[2];
  int64_t integers[2];
};

// Runs `count` elements of a row. Index of data and strides (in bytes): the operand; the output is operand 0.
using Run = void (*)(char* const* data, const int64_t* strides, int64_t count, const Values& values);

// The results of one step of an LSTM, each [batch, hidden]: the gates after their activation, the states, and tanh of the cell
// state. If `input` is null, a forward step writes only the two states.
struct LstmStep {
  float *input, *forget, *cell, *output, *hidden, *state, *squashed;
};
using LstmForward = void (*)(const float* gates, const float* state, const LstmStep& to, int64_t batch, int64_t hidden);
// `grad_state` is the gradient of the cell state after the step, and becomes the gradient of the cell state before it.
using LstmBackward = void (*)(const LstmStep& from, const float* state_before, const float* grad_output, const float* grad_hidden,
                              float* grad_state, float* grad_gates, int64_t batch, int64_t hidden);

// Statistics of the elements of a tensor. `least` and `greatest` ignore NaN.
struct Summary {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double squares = 0;
  bool has_nan = false;
};
// Adds `count` elements that are contiguous in memory.
using Summarise = void (*)(const char* data, int64_t count, Summary& into);

// results[row][column] = sum of rows[row][k] * matrix[k][column] over `length` values of k. A row of `rows` ends with zeros up to
// a multiple of kThinBlock numbers. Rows or columns of the matrix are dense. Strides of the matrix are in bytes, others in
// numbers.
inline constexpr int kMostThinRows = 4;
inline constexpr int64_t kThinBlock = 128;
struct ThinProduct {
  const float* rows;
  int64_t row_stride;
  int row_count;  // at most kMostThinRows
  const char* matrix;
  int64_t stride, column_stride;  // from k to k + 1, from a column to the next one
  bool has_dense_columns;
  int64_t length;
  float* results;
  int64_t result_stride;
};
// Computes the columns from `begin` to `end`.
using RunThinProduct = void (*)(const ThinProduct& product, int64_t begin, int64_t end);

// Null: the engine has no such loop. Index of moves, choices and fills, which only copy bits: log2 of the bytes of an element.
struct Loops {
  Run ops[kOps][kTypes];
  Run casts[kTypes][kTypes];  // [from][to]
  Run moves[5];
  Run choices[5];  // [condition, a, b]: where
  Run fills[4];    // values.integers[0] holds the bits
  LstmForward lstm_forward;
  LstmBackward lstm_backward;
  Summarise summaries[kTypes];
  RunThinProduct thin_products[kTypes];  // of half precision only
};

// The loops for the instruction set that ATen uses.
const Loops& loops();

}  // namespace softnpu::ops::engine
