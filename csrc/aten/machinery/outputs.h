// What an operator returns, said before it exists: new tensors, tensors without memory, or the caller's own are made from it.
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
  Sizes strides{};  // empty: contiguous, or as the options' memory format says
  at::TensorOptions options{};
  bool wanted = true;               // false: the operator returns an undefined tensor here
  bool casts = false;               // an out= tensor may have another dtype, as elementwise operators allow it
  at::Tensor made{};                // defined: what shape inference had to make anyway
  std::vector<at::Tensor> apart{};  // what an out= tensor may share no memory with
};

template <size_t N>
using Outputs = std::array<Output, N>;

// The sizes of `tensor`, in its own order of dimensions if it is dense or permuted.
Output like(const at::Tensor& tensor, at::ScalarType dtype);
inline Output like(const at::Tensor& tensor) { return like(tensor, tensor.scalar_type()); }
// The same as the result of an elementwise operator.
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
// The broadcast of all operands, laid out as TensorIterator does it; it also refuses operands of two devices. Number-like
// operands may be on CPU.
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

// The same without memory, for shape propagation.
template <size_t N>
std::array<at::Tensor, N> allocate_meta(const Outputs<N>& outputs) {
  std::array<at::Tensor, N> tensors;
  for (size_t index = 0; index < N; ++index) {
    const Output& output = outputs[index];
    if (output.wanted) tensors[index] = at::detail::empty_meta(output.sizes, output.options.device(at::kMeta));
  }
  return tensors;
}

// Gives `given` the shape of `output`, or says in PyTorch's words why it cannot. Returns a stand-in if the dtypes differ and may,
// else an undefined tensor.
at::Tensor prepare_output(const at::Tensor& given, const Output& output);

// Where an out= form writes: the caller's tensors, or stand-ins where the caller wants another dtype than the result has.
template <size_t N>
class Results {
 public:
  Results(const Outputs<N>& outputs, const std::array<std::reference_wrapper<at::Tensor>, N>& given) : given_(given) {
    for (size_t index = 0; index < N; ++index) {
      if (outputs[index].wanted) proxies_[index] = prepare_output(given[index], outputs[index]);
    }
  }

  const at::Tensor& output(size_t index) const { return proxies_[index].defined() ? proxies_[index] : given_[index].get(); }

  // Casts stand-ins into the caller's tensors. To be called after the launch.
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
