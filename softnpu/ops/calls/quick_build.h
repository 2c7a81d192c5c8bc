// The short form of phase one, for calls whose arguments passed the checks before.
//
//   if (build_quickly(kAdd, workspaceSize, executor, self, other, alpha, out)) return ACLNN_SUCCESS;
//   Build build(kAdd, workspaceSize, executor);   // makes all checks and reports failures
//
// It reports no failure: it returns false for arguments that are unusual or new, and Build then decides.
#pragma once

#include <algorithm>
#include <type_traits>

#include "ops/calls/executor.h"
#include "ops/checks/argument_check.h"
#include "ops/objects/pool.h"

namespace softnpu::ops {

// Each add() takes one argument. False: use Build.
class QuickBuild {
 public:
  QuickBuild(Executor& executor, RecentAllocations& recent_allocations)
      : executor_(executor), recent_allocations_(recent_allocations), numbers_(executor.numbers.data()) {}

  [[gnu::always_inline]] bool add(const aclTensor* handle) { return describe(handle, tensors_++); }

  bool add(const aclTensorList* handle) {
    const auto* list = find<TensorListObject>(handle);
    if (list == nullptr) return false;
    const size_t first = executor_.views.size();
    const size_t count = list->values.size();
    executor_.slices.push_back({uint32_t(first), uint32_t(count), true});
    executor_.views.resize_for_overwrite(first + count);
    executor_.places.resize_for_overwrite(first + count);
    for (size_t i = 0; i < count; ++i) {
      if (!describe(list->values[i], first + i)) return false;
    }
    return true;
  }

  [[gnu::always_inline]] bool add(const aclScalar* handle) {
    const auto* scalar = find<ScalarObject>(handle);
    if (scalar == nullptr) return false;
    executor_.scalars[scalars_++] = scalar->value;
    return true;
  }

  bool add(const aclIntArray* handle) {
    const auto* array = find<IntArrayObject>(handle);
    if (array == nullptr) return false;
    const size_t count = array->values.size();
    if (used_ + count > executor_.numbers.capacity()) return false;
    std::copy_n(array->values.data(), count, numbers_ + used_);
    executor_.slices.push_back({uint32_t(used_), uint32_t(count), true});
    used_ += count;
    return true;
  }

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  bool add(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      executor_.values.push_back({.real = value});
    } else {
      executor_.values.push_back({.integer = int64_t(value)});
    }
    return true;
  }

  [[gnu::always_inline]] bool finish() {
    executor_.numbers.set_size(used_);
    executor_.cost = uint64_t(cost_);
    return passed_before(executor_);
  }

 private:
  [[gnu::always_inline]] bool describe(const aclTensor* handle, size_t number) {
    const auto* tensor = find<TensorObject>(handle);
    if (tensor == nullptr) return false;
    const size_t count = tensor->dims.size();
    const int64_t item_size = unsigned(tensor->dtype) < unsigned(kDataTypes) ? kUsualItemSizes[tensor->dtype] : 0;
    int64_t bytes = 0;
    int64_t offset = 0;
    const bool unusual = item_size == 0 || !is_base_format(tensor->format) || tensor->reach <= 0 || tensor->address == nullptr ||
                         __builtin_mul_overflow(tensor->reach, item_size, &bytes) ||
                         __builtin_mul_overflow(tensor->offset, item_size, &offset) ||
                         used_ + count > executor_.numbers.capacity();
    if (unusual) return false;
    TensorView& view = executor_.views[number];
    if (!recent_allocations_.find(static_cast<const std::byte*>(tensor->address) + offset, size_t(bytes), &view.data))
      return false;
    int64_t* const numbers = numbers_ + used_;
    for (size_t i = 0; i < count; ++i) numbers[i] = tensor->dims[i];
    view.dtype = tensor->dtype;
    view.ndim = tensor->ndim;
    view.contiguous = tensor->contiguous;
    view.sizes = numbers;
    view.strides = numbers + tensor->ndim;
    view.numel = tensor->numel;
    executor_.places[number] = {offset, bytes, uint32_t(used_), tensor->format, handle};
    used_ += count;
    cost_ = std::max(cost_, tensor->numel);
    return true;
  }

  Executor& executor_;
  RecentAllocations& recent_allocations_;
  int64_t* const numbers_;
  size_t used_ = 0;
  size_t tensors_ = 0;
  size_t scalars_ = 0;
  int64_t cost_ = 0;
};

template <typename... Arguments>
bool build_quickly(const Operation& operation, uint64_t* workspace_size, aclOpExecutor** result, const Arguments&... arguments) {
  if (workspace_size == nullptr || result == nullptr || driver() == nullptr) return false;
  ThreadCache& cache = thread_cache();
  Executor* executor = Pool<Executor>::take(cache);
  executor->operation = &operation;
  executor->views.resize_for_overwrite(size_t(operation.tensor_count));
  executor->places.resize_for_overwrite(size_t(operation.tensor_count));
  executor->scalars.resize(size_t(operation.scalar_count));
  QuickBuild quick(*executor, cache.recent_allocations);
  if (!((quick.add(arguments) && ...) && quick.finish())) [[unlikely]] {
    recycle(executor);
    return false;
  }
  executor->owners.store(1, std::memory_order_relaxed);
  *workspace_size = 0;
  *result = begin_life(*executor);
  return true;
}

}  // namespace softnpu::ops
