// Descriptions of an operator's results. New tensors and meta tensors are made from them, and tensors of the caller are checked
// against them.
//
//   auto [out] = allocate(Outputs<1>{like(self)});                                            // the functional form
//   Results<1> results(infer::promoted(self, other), {out});                                   // the out= form
//   call::aclnnFloorDivide(self, other, results.output(0));   results.finish();
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <vector>

#include "aten/machinery/allocate.h"

namespace torch_npu {

using Sizes = c10::SmallVector<int64_t, 6>;

struct Output {
  Sizes sizes{};
  Sizes strides{};  // empty: those of the options' memory format, or contiguous
  at::TensorOptions options{};
  bool wanted = true;               // false: the result is an undefined tensor
  bool casts = false;               // an out= tensor may have another dtype, as for elementwise operators
  at::Tensor made{};                // the result, if shape inference has made it already
  std::vector<at::Tensor> apart{};  // an out= tensor may share no memory with these
};

template <size_t N>
using Outputs = std::array<Output, N>;

// The sizes of `tensor`, dense, with the dimensions in memory in the same order.
Output like(const at::Tensor& tensor, at::ScalarType dtype);
inline Output like(const at::Tensor& tensor) { return like(tensor, tensor.scalar_type()); }
// The same for an elementwise operator, whose out= tensor may have another dtype.
inline Output elementwise(const at::Tensor& tensor, at::ScalarType dtype) {
  Output output = like(tensor, dtype);
  output.casts = true;
  return output;
}
// The sizes of `tensor` in its suggested memory format.
Output formatted_like(const at::Tensor& tensor);
inline Output sized(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return {.sizes = Sizes(sizes), .options = options.memory_format({})};
}
// The broadcast of all operands, with the strides of TensorIterator. Throws for operands on two devices, except for 0-dim CPU
// tensors.
Output broadcast(std::initializer_list<std::reference_wrapper<const at::Tensor>> operands, at::ScalarType dtype);

template <size_t N>
std::array<at::Tensor, N> allocate(const Outputs<N>& outputs) {
  std::array<at::Tensor, N> tensors;
  for (size_t index = 0; index < N; ++index) {
    const Output& output = outputs[index];
    if (!output.wanted) continue;
    tensors[index] = output.made.defined() ? output.made : empty_output(output.sizes, output.strides, output.options);
  }
  return tensors;
}

// The same as meta tensors, for shape propagation.
template <size_t N>
std::array<at::Tensor, N> allocate_meta(const Outputs<N>& outputs) {
  std::array<at::Tensor, N> tensors;
  for (size_t index = 0; index < N; ++index) {
    const Output& output = outputs[index];
    if (output.wanted) tensors[index] = at::detail::empty_meta(output.sizes, output.options.device(at::kMeta));
  }
  return tensors;
}

// Resizes `given` to `output`, or throws PyTorch's error. If the dtypes differ and `output` casts, returns a temporary tensor of
// the result's dtype; else an undefined tensor.
at::Tensor prepare_output(const at::Tensor& given, const Output& output);

// The tensors that an out= form writes: those of the caller, or temporary ones where the caller's dtype is another one.
template <size_t N>
class Results {
 public:
  Results(const Outputs<N>& outputs, const std::array<std::reference_wrapper<at::Tensor>, N>& given) : given_(given) {
    for (size_t index = 0; index < N; ++index) {
      if (outputs[index].wanted) proxies_[index] = prepare_output(given[index], outputs[index]);
    }
  }

  const at::Tensor& output(size_t index) const { return proxies_[index].defined() ? proxies_[index] : given_[index].get(); }

  // Casts temporary tensors into those of the caller. Call it after the launch.
  void finish() const {
    for (size_t index = 0; index < N; ++index) {
      if (proxies_[index].defined()) given_[index].get().copy_(proxies_[index]);
    }
  }

 private:
  std::array<std::reference_wrapper<at::Tensor>, N> given_;
  std::array<at::Tensor, N> proxies_;
};

}  // namespace torch_npu
