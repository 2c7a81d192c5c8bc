#include "ops/engine/layout.h"

#include <algorithm>
#include <atomic>

namespace softnpu::ops::engine {
namespace {

bool same_sizes(const TensorView& a, const TensorView& b) {
  if (a.ndim != b.ndim) return false;
  int64_t differences = 0;
  for (int dim = 0; dim < a.ndim; ++dim) differences |= a.sizes[dim] ^ b.sizes[dim];
  return differences == 0;
}

}  // namespace

bool Layout::plan(const TensorView& out, std::initializer_list<const TensorView*> inputs, Rule rule) {
  numel_ = out.numel;
  if (numel_ == 0 || numel_ > kMaxElements) return false;
  operands_ = 1 + int(inputs.size());
  data_[0] = static_cast<char*>(out.data);
  int operand = 1;
  dense_ = out.contiguous;
  for (const TensorView* input : inputs) {
    data_[operand++] = static_cast<char*>(input->data);
    dense_ = dense_ && input->contiguous && same_sizes(out, *input);
  }
  if (!dense_) return plan_strided(out, inputs, rule);

  ndim_ = 1;
  sizes_[0] = numel_;
  strides_[0][0] = item_size_of(out.dtype);
  operand = 1;
  for (const TensorView* input : inputs) strides_[0][operand++] = item_size_of(input->dtype);
  return true;
}

bool Layout::plan_strided(const TensorView& out, std::initializer_list<const TensorView*> inputs, Rule rule) {
  if (out.ndim > kMaxDims || numel_ > kMaxStridedElements) return false;
  ndim_ = out.ndim;
  const int64_t out_size = item_size_of(out.dtype);
  for (int dim = 0; dim < ndim_; ++dim) {
    const int from = out.ndim - 1 - dim;
    sizes_[dim] = out.sizes[from];
    strides_[dim][0] = out.strides[from] * out_size;
    if (sizes_[dim] > 1 && strides_[dim][0] == 0) return false;
  }
  bool covered[kMaxDims] = {};
  int operand = 1;
  for (const TensorView* input : inputs) {
    if (!add_input(out, *input, operand++, covered)) return false;
  }
  if (rule == Rule::kTogether && !std::all_of(covered, covered + ndim_, [](bool value) { return value; })) return false;
  order_and_merge();
  return true;
}

bool Layout::add_input(const TensorView& out, const TensorView& input, int operand, bool* covered) {
  if (input.ndim > out.ndim) return false;
  const int64_t size = item_size_of(input.dtype);
  for (int dim = 0; dim < ndim_; ++dim) {
    const int from = input.ndim - 1 - dim;
    strides_[dim][operand] = 0;
    if (from < 0) continue;
    if (input.sizes[from] == sizes_[dim]) {
      covered[dim] = true;
      if (sizes_[dim] > 1) strides_[dim][operand] = input.strides[from] * size;
      continue;
    }
    if (input.sizes[from] != 1) return false;
  }
  return true;
}

// Sorts dimensions by the stride of the output, so that it is written in memory order. Merges dimensions that follow each other.
void Layout::order_and_merge() {
  int kept = 0;
  for (int dim = 0; dim < ndim_; ++dim) {
    if (sizes_[dim] == 1) continue;
    int place = kept++;
    const int64_t size = sizes_[dim];
    int64_t strides[kMaxOperands];
    std::copy_n(strides_[dim], operands_, strides);
    for (; place > 0 && strides_[place - 1][0] > strides[0]; --place) {
      sizes_[place] = sizes_[place - 1];
      std::copy_n(strides_[place - 1], operands_, strides_[place]);
    }
    sizes_[place] = size;
    std::copy_n(strides, operands_, strides_[place]);
  }
  if (kept == 0) {
    sizes_[0] = 1;
    std::fill_n(strides_[0], operands_, 0);
    kept = 1;
  }
  int last = 0;
  for (int dim = 1; dim < kept; ++dim) {
    bool joins = true;
    for (int k = 0; k < operands_; ++k) joins = joins && strides_[dim][k] == strides_[last][k] * sizes_[last];
    if (joins) {
      sizes_[last] *= sizes_[dim];
      continue;
    }
    ++last;
    sizes_[last] = sizes_[dim];
    std::copy_n(strides_[dim], operands_, strides_[last]);
  }
  ndim_ = last + 1;
}

// Walks every second long row from its end to its begin, block by block. It then starts with the data that the previous operation
// used last, while that is still in the cache.
void Layout::walk_row(Run run, const Values& values) const {
  constexpr int64_t kBlock = 1024;  // elements; a multiple of the vector length of every loop
  static constinit std::atomic<bool> previous_was_backward = false;
  const int64_t count = sizes_[0];
  if (count <= 2 * kBlock) return run(data_, strides_[0], count, values);
  const bool backward = !previous_was_backward.load(std::memory_order_relaxed);
  previous_was_backward.store(backward, std::memory_order_relaxed);
  if (!backward) return run(data_, strides_[0], count, values);
  char* data[kMaxOperands];
  for (int64_t begin = (count - 1) / kBlock * kBlock; begin >= 0; begin -= kBlock) {
    for (int k = 0; k < operands_; ++k) data[k] = data_[k] + begin * strides_[0][k];
    run(data, strides_[0], std::min(kBlock, count - begin), values);
  }
}

void Layout::walk(Run run, const Values& values) const {
  if (ndim_ == 1) return walk_row(run, values);
  char* data[kMaxOperands];
  std::copy_n(data_, operands_, data);
  int64_t index[kMaxDims] = {};
  for (;;) {
    run(data, strides_[0], sizes_[0], values);
    int dim = 1;
    for (; dim < ndim_; ++dim) {
      for (int k = 0; k < operands_; ++k) data[k] += strides_[dim][k];
      if (++index[dim] < sizes_[dim]) break;
      for (int k = 0; k < operands_; ++k) data[k] -= strides_[dim][k] * sizes_[dim];
      index[dim] = 0;
    }
    if (dim == ndim_) return;
  }
}

}  // namespace softnpu::ops::engine
