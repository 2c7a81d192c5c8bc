#include "ops/calls/executor.h"

#include <memory>

namespace softnpu::ops {
namespace {

// Frees the memory of vectors.
template <typename... Vectors>
void renew(Vectors&... vectors) {
  (std::destroy_at(&vectors), ...);
  (std::construct_at(&vectors), ...);
}

std::string scalar_text(const at::Scalar& scalar) {
  if (scalar.isComplex()) return text(scalar.toComplexDouble());
  if (scalar.isFloatingPoint()) return text(scalar.toDouble());
  if (scalar.isBoolean()) return scalar.toBool() ? "true" : "false";
  return scalar.isUnsigned() ? text(scalar.toUInt64()) : text(scalar.toLong());
}

// The life of a repeatable executor. It differs from the handle, so that find() and end_life() do not find the executor.
uint64_t repeatable_life(const aclOpExecutor* handle) {
  constexpr uint64_t kMark = uint64_t{0x80} << detail::kKindShift;
  return detail::number_of(handle) ^ kMark;
}

}  // namespace

void point_at_dims(Executor& executor) {
  for (size_t i = 0; i < executor.views.size(); ++i) {
    TensorView& view = executor.views[i];
    view.sizes = executor.numbers.data() + executor.places[i].dims;
    view.strides = view.sizes + view.ndim;
  }
}

void recycle(Executor* executor) {
  constexpr size_t kLarge = 1024;
  if (executor->numbers.capacity() > kLarge || executor->scalars.capacity() > kLarge) [[unlikely]]
    renew(executor->views, executor->places, executor->scalars, executor->numbers);
  executor->absent_scalars = 0;
  executor->values.clear();  // the next call sets the size of views, places and scalars
  executor->slices.clear();
  executor->numbers.clear();
  executor->reals.clear();
  executor->strings.clear();
  executor->result_sizes.clear();
  Pool<Executor>::give(executor);
}

std::mutex& repeatable_mutex() {
  static constinit std::mutex mutex;
  return mutex;
}

bool make_repeatable(const aclOpExecutor* handle) {
  Executor* executor = detail::object_at<Executor>(handle);
  uint64_t life = detail::number_of(handle);
  return executor != nullptr &&
         (executor->life.compare_exchange_strong(life, repeatable_life(handle)) || life == repeatable_life(handle));
}

Executor* find_repeatable(const aclOpExecutor* handle) {
  Executor* executor = detail::object_at<Executor>(handle);
  return executor != nullptr && executor->life.load(std::memory_order_acquire) == repeatable_life(handle) ? executor : nullptr;
}

Executor* end_repeatable(const aclOpExecutor* handle) {
  Executor* executor = find_repeatable(handle);
  if (executor != nullptr) executor->life.store(detail::number_of(handle) + detail::kNextGeneration, std::memory_order_release);
  return executor;
}

void release_task(void* payload) {
  Executor* const executor = *static_cast<Executor**>(payload);
  const bool is_last = executor->owners.load(std::memory_order_acquire) == 1;
  if (is_last || executor->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) recycle(executor);
}

std::string describe_arguments(const Executor& executor) {
  const Operation& operation = *executor.operation;
  std::string result;
  size_t tensor = 0;
  size_t scalar = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    const ParameterInfo& parameter = operation.parameters[i];
    std::string value;
    if (parameter.kind == ParameterKind::kTensor) {
      const TensorView& view = executor.views[tensor++];
      if (view.dtype == ACL_DT_UNDEFINED) continue;
      value = text(name_of(view.dtype), at::IntArrayRef(view.sizes, size_t(view.ndim)));
    } else if (parameter.kind == ParameterKind::kScalar) {
      const bool absent = executor.absent_scalars >> scalar & 1;
      value = absent ? "none" : scalar_text(executor.scalars[scalar]);
      ++scalar;
    } else {
      continue;
    }
    result += text(result.empty() ? "" : ", ", parameter.name, ": ", value);
  }
  return result;
}

}  // namespace softnpu::ops
