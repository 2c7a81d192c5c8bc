// The innermost loops of the engine: one row of an elementwise operation, compiled for several instruction sets.
//
// Results are ATen's, bit by bit: fused multiply-add where ATen's loops for that instruction set fuse, nowhere else (these files
// are compiled without contraction), half precision computed in float and rounded once.
#pragma once

#include <cstdint>

namespace softnpu::ops::engine {

inline constexpr int kMaxOperands = 4;

enum class Type : uint8_t { kFloat, kDouble, kHalf, kBFloat16, kInt8, kUInt8, kInt16, kInt32, kInt64, kBool };
inline constexpr int kTypes = 10;

// Operands in brackets; `v` and `w` are host scalars.
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

// `count` elements of a row; data and strides (in bytes) by operand, the output first.
using Run = void (*)(char* const* data, const int64_t* strides, int64_t count, const Values& values);

// What one step of an LSTM gives, each [batch, hidden]: the gates after their activation, the states, and tanh of the cell state.
// A forward step without `input` keeps the two states only.
struct LstmStep {
  float *input, *forget, *cell, *output, *hidden, *state, *squashed;
};
using LstmForward = void (*)(const float* gates, const float* state, const LstmStep& to, int64_t batch, int64_t hidden);
// `grad_state` is that of the step's cell state, and becomes that of the state before it.
using LstmBackward = void (*)(const LstmStep& from, const float* state_before, const float* grad_output, const float* grad_hidden,
                              float* grad_state, float* grad_gates, int64_t batch, int64_t hidden);

// Null marks what the engine does not offer. Moves, choices and fills look at bits only: by log2 of the element's bytes.
struct Loops {
  Run ops[kOps][kTypes];
  Run casts[kTypes][kTypes];  // [from][to]
  Run moves[5];
  Run choices[5];  // [condition, a, b]: where
  Run fills[4];    // values.integers[0] holds the bits
  LstmForward lstm_forward;
  LstmBackward lstm_backward;
};

// Those of the instruction set that ATen uses here.
const Loops& loops();

}  // namespace softnpu::ops::engine
