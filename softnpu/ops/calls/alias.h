// ATen tensors over the memory of a call, without an allocation per call.
//
//   at::Tensor* tensors = AliasTensors::of_this_thread().bind(executor);
//   operation.run(Arguments(executor, tensors));
//
// Every thread keeps an array of CPU tensors and points them at the memory of the call that it runs. Their storages cannot be
// resized: a kernel that tries to resize an output fails.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "ops/calls/executor.h"

namespace softnpu::ops {

// The alias tensors of one thread.
class AliasTensors {
 public:
  static AliasTensors& of_this_thread();

  // Tensor number i is view number i until the next call. The tensor of an absent view must not be used.
  at::Tensor* bind(const Executor& executor);

  // Replaces each tensor that a kernel has kept, marked as conjugate or negative, or given another storage.
  void settle(size_t count);

 private:
  std::vector<at::Tensor> tensors_;
};

// The arguments of a running kernel, by their number within their kind.
class Arguments {
 public:
  // `tensors` has one element per view.
  Arguments(const Executor& executor, at::Tensor* tensors) : executor_(executor), tensors_(tensors) {}

  at::Tensor& tensor(int i) const { return tensors_[i]; }
  std::optional<at::Tensor> optional_tensor(int i) const {
    return has_tensor(i) ? std::optional<at::Tensor>(tensors_[i]) : std::nullopt;
  }
  at::TensorList tensors(int i) const {
    const Executor::Slice& slice = executor_.slices[i];
    return {tensors_ + slice.begin, slice.count};
  }
  c10::List<std::optional<at::Tensor>> optional_tensors(int i) const;

  const at::Scalar& scalar(int i) const { return executor_.scalars[i]; }
  std::optional<at::Scalar> optional_scalar(int i) const {
    return executor_.absent_scalars >> i & 1 ? std::nullopt : std::optional<at::Scalar>(executor_.scalars[i]);
  }
  at::ArrayRef<at::Scalar> scalars(int i) const {
    const Executor::Slice& slice = executor_.slices[i];
    return {executor_.scalars.data() + slice.begin, slice.count};
  }

  int64_t integer(int i) const { return executor_.values[i].integer; }
  bool flag(int i) const { return integer(i) != 0; }
  double real(int i) const { return executor_.values[i].real; }
  at::ScalarType dtype(int i) const { return scalar_type_of(aclDataType(integer(i))); }
  std::string_view text(int i) const;
  std::optional<std::string_view> optional_text(int i) const;

  at::IntArrayRef integers(int i) const {
    const Executor::Slice& slice = executor_.slices[i];
    return {executor_.numbers.data() + slice.begin, slice.count};
  }
  at::OptionalIntArrayRef optional_integers(int i) const {
    return executor_.slices[i].present ? at::OptionalIntArrayRef(integers(i)) : std::nullopt;
  }
  at::ArrayRef<double> reals(int i) const {
    const Executor::Slice& slice = executor_.slices[i];
    return {executor_.reals.data() + slice.begin, slice.count};
  }
  std::optional<at::ArrayRef<double>> optional_reals(int i) const {
    return executor_.slices[i].present ? std::optional(reals(i)) : std::nullopt;
  }
  template <size_t kCount>
  std::array<bool, kCount> flags(int i) const {
    const at::IntArrayRef values = integers(i);
    TORCH_CHECK(values.size() == kCount, kCount, " flags are expected, ", values.size(), " were given");
    std::array<bool, kCount> flags;
    std::copy(values.begin(), values.end(), flags.begin());
    return flags;
  }

  // Copies a result of a functional kernel into the memory of a tensor parameter. Does nothing if one of the two is absent.
  void store(int i, const at::Tensor& result) const;
  void store_list(int i, at::TensorList results) const;

 private:
  bool has_tensor(int i) const { return executor_.views[i].dtype != ACL_DT_UNDEFINED; }
  void store_view(size_t view, const at::Tensor& result) const;

  const Executor& executor_;
  at::Tensor* const tensors_;
};

}  // namespace softnpu::ops
