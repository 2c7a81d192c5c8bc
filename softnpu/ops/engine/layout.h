// The loop nest over the operands of an elementwise operation. Dimensions that follow each other in memory are merged.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ops/engine/loops.h"
#include "ops/objects/objects.h"

namespace softnpu::ops::engine {

// For more elements ATen's loops are faster: they use several threads, and walk strided memory in blocks.
inline constexpr int64_t kMaxElements = 32 * 1024;
inline constexpr int64_t kMaxStridedElements = 8 * 1024;

class Layout {
 public:
  // kTogether: the output has the common shape of the inputs. kIntoOutput: each input broadcasts to the output.
  enum class Rule { kTogether, kIntoOutput };

  // False if ATen must run the operation: the shapes do not fit, there are too many dimensions, or the output is empty, too large
  // or has two elements at one address. Operand 0 is the output.
  bool plan(const TensorView& out, std::initializer_list<const TensorView*> inputs, Rule rule = Rule::kTogether);

  // Whether all operands are dense and have the same shape.
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
