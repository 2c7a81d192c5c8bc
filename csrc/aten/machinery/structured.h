// Outputs of structured operators, by the shape function of ATen.
//
//   Functional<at::meta::structured_add_Tensor, 1> op;                 // op.meta() allocates the outputs
//   Into<at::meta::structured_add_Tensor, 1, Form::kOut> op({out});    // op.meta() checks or resizes the caller's tensors
//   op.meta(self, other, alpha);
//   call::aclnnAdd(self, other, alpha, op.output(0));
//
// meta() is PyTorch's own function: shapes, promotion, overlap and argument checks are those of the CPU, with the same messages.
// The device must be current before meta() runs. One object serves one call.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <array>
#include <type_traits>

#include "aten/machinery/allocate.h"

// Before 2.13 shape functions also pass dimension names.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
#define TORCH_NPU_NAMES_PARAMETER , at::DimnameList names
#define TORCH_NPU_NAMES_ARGUMENT , names
#else
#define TORCH_NPU_NAMES_PARAMETER
#define TORCH_NPU_NAMES_ARGUMENT
#endif

namespace torch_npu {

enum class Form { kOut, kInplace };

namespace detail {

// A TensorIterator has to be told about each output after it exists.
template <class Meta>
void tell_iterator(Meta& op, int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                   at::TensorOptions options TORCH_NPU_NAMES_PARAMETER) {
  if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
    op.at::TensorIteratorBase::set_output_raw_strided(index, sizes, strides, options TORCH_NPU_NAMES_ARGUMENT);
  }
}

}  // namespace detail

template <class Meta, int N>
class Functional final : public Meta {
 public:
  const at::Tensor& output(int index) const { return outputs_[index]; }
  at::Tensor& take(int index) { return outputs_[index]; }

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options TORCH_NPU_NAMES_PARAMETER) override {
    outputs_[index] = empty_output(sizes, strides, options);
    detail::tell_iterator<Meta>(*this, index, sizes, strides, options TORCH_NPU_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options TORCH_NPU_NAMES_PARAMETER) override {
    set_output_strided(index, sizes, strides, options TORCH_NPU_NAMES_ARGUMENT);
  }
  const at::Tensor& maybe_get_output(int64_t index) override { return outputs_[index]; }

 private:
  std::array<at::Tensor, N> outputs_;
};

template <class Meta, int N, Form kForm>
class Into final : public Meta {
 public:
  explicit Into(std::array<std::reference_wrapper<at::Tensor>, N> given) : given_(given) {}

  // The tensor that the device writes: that of the caller, or a temporary one if the operator needs other strides or the tensor
  // is a conjugated or negated view.
  const at::Tensor& output(int index) const { return proxies_[index].defined() ? proxies_[index] : given_[index].get(); }

  // Copies temporary tensors into those of the caller. Call it after the launch.
  void finish() {
    for (int index = 0; index < N; ++index) {
      if (proxies_[index].defined()) given_[index].get().copy_(proxies_[index]);
    }
  }

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options TORCH_NPU_NAMES_PARAMETER) override {
    prepare(index, sizes, strides, options);
    if (!strides.empty() && given_[index].get().strides() != strides) proxies_[index] = empty_output(sizes, strides, options);
    detail::tell_iterator<Meta>(*this, index, sizes, strides, options TORCH_NPU_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options TORCH_NPU_NAMES_PARAMETER) override {
    prepare(index, sizes, strides, options);
    detail::tell_iterator<Meta>(*this, index, sizes, strides, options TORCH_NPU_NAMES_ARGUMENT);
  }
  const at::Tensor& maybe_get_output(int64_t index) override { return output(static_cast<int>(index)); }

 private:
  void prepare(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) {
    if constexpr (kForm == Form::kOut) {
      resize_output(given_[index], sizes, strides, options);
    } else {
      check_inplace(given_[index], sizes, options);
    }
    const at::Tensor& given = given_[index];
    if (C10_UNLIKELY(given.is_conj() || given.is_neg())) proxies_[index] = empty_output(sizes, strides, options);
  }

  std::array<std::reference_wrapper<at::Tensor>, N> given_;
  std::array<at::Tensor, N> proxies_;
};

// For hand-written operators with one output: calls the shape function with `arguments`, then run(output).
template <class Meta, class Run, class... Arguments>
at::Tensor compute(Run run, const Arguments&... arguments) {
  Functional<Meta, 1> op;
  (void)op.meta(arguments...);
  run(op.output(0));
  return std::move(op.take(0));
}

template <class Meta, Form kForm, class Run, class... Arguments>
at::Tensor& compute_into(at::Tensor& out, Run run, const Arguments&... arguments) {
  Into<Meta, 1, kForm> op({out});
  (void)op.meta(arguments...);
  run(op.output(0));
  op.finish();
  return out;
}

}  // namespace torch_npu
