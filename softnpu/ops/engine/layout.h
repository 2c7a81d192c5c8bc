// How to walk the operands of an elementwise operation: which dimensions are left once those that lie back to back are one.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ops/engine/loops.h"
#include "ops/objects.h"

namespace softnpu::ops::engine {

// Above this many elements ATen's loops win: they run on several threads, and walk strided memory in blocks.
inline constexpr int64_t kMaxElements = 32 * 1024;
inline constexpr int64_t kMaxStridedElements = 8 * 1024;

class Layout {
 public:
  // Which shapes the inputs may have: what they broadcast to together is the output's shape, or each alone broadcasts to it.
  enum class Rule { kTogether, kIntoOutput };

  // False where the engine leaves the operation to ATen: shapes that do not fit, an output that is empty, too large or that has
  // two elements in one place, too many dimensions. Operand 0 is the output.
  bool plan(const TensorView& out, std::initializer_list<const TensorView*> inputs, Rule rule = Rule::kTogether);

  // Whether every operand is one dense run in the same order.
  bool dense() const { return dense_; }

  // Calls `run` for every innermost row.
  void walk(Run run, const Values& values) const;

 private:
  static constexpr int kMaxDims = 8;

  bool plan_strided(const TensorView& out, std::initializer_list<const TensorView*> inputs, Rule rule);
  bool add_input(const TensorView& out, const TensorView& input, int operand, bool* covers);
  void order_and_merge();
  void walk_row(Run run, const Values& values) const;

  bool dense_ = false;
  int operands_ = 0;
  int ndim_ = 0;
  int64_t numel_ = 0;
  int64_t sizes_[kMaxDims];                  // innermost first
  int64_t strides_[kMaxDims][kMaxOperands];  // in bytes
  char* data_[kMaxOperands];
};

}  // namespace softnpu::ops::engine
