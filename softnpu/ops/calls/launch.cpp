// Phase two of a call: executor.h.
#include <utility>

#include "acl/acl_rt.h"
#include "ops/calls/executor.h"
#include "ops/checks/chip_limits.h"
#include "runtime/profiler.h"

#pragma weak softnpuProfiler

namespace softnpu::ops {
namespace {

// The cost of an element of a heavy kernel, in elements of an elementwise kernel.
constexpr uint64_t kHeavyCost = 4;

const SoftnpuProfiler* profiler() {
  static const SoftnpuProfiler* const found = softnpuProfiler == nullptr ? nullptr : softnpuProfiler(SOFTNPU_PROFILER_VERSION);
  return found;
}

// Whether a profile or the log wants the tensors of operators.
bool records_tensors() {
  const SoftnpuProfiler* const found = profiler();
  constexpr uint32_t kWanted = SOFTNPU_RECORD_TENSORS | SOFTNPU_LOG_SIGNATURES;
  return found != nullptr && (__atomic_load_n(found->on, __ATOMIC_RELAXED) & kWanted) != 0;
}

// Gives the profiler the tensors of the task that this thread launches next.
void record_tensors(const Executor& executor) {
  constexpr int64_t kWritten = int64_t{1} << 40;
  c10::SmallVector<int64_t, 64> words;
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t number) {
    const TensorView& view = executor.views[number];
    if (view.dtype == ACL_DT_UNDEFINED) return;
    const int32_t given = executor.places[number].format;
    const int64_t format = given >= 0 ? given : ACL_FORMAT_ND;
    words.push_back(int64_t(view.ndim) | int64_t(view.dtype) << 8 | format << 24 | (parameter.written ? kWritten : 0));
    words.append(view.sizes, view.sizes + view.ndim);
  });
  const uint32_t on = __atomic_load_n(profiler()->on, __ATOMIC_RELAXED);
  if (on & SOFTNPU_RECORD_TENSORS) profiler()->describe_next(0, 0, words.data(), uint32_t(words.size()));
  if (on & SOFTNPU_LOG_SIGNATURES) {
    profiler()->signature(executor.operation->task.name, words.data(), uint32_t(words.size()));
  }
}

struct Recycle {
  void operator()(Executor* executor) const { recycle(executor); }
};
using OwnedExecutor = std::unique_ptr<Executor, Recycle>;

OwnedExecutor copy_of(const Executor& source) {
  OwnedExecutor copy(Pool<Executor>::take());
  copy->operation = source.operation;
  copy->cost = source.cost;
  copy->absent_scalars = source.absent_scalars;
  copy->views = source.views;
  copy->places = source.places;
  copy->scalars = source.scalars;
  copy->values = source.values;
  copy->slices = source.slices;
  copy->numbers = source.numbers;
  copy->reals = source.reals;
  copy->strings = source.strings;
  point_at_dims(*copy);
  return copy;
}

OwnedExecutor copy_of_repeatable(const aclOpExecutor* handle) {
  const std::lock_guard lock(repeatable_mutex());
  const Executor* executor = find_repeatable(handle);
  return executor == nullptr ? nullptr : copy_of(*executor);
}

// Whether the outputs of a sync function are live. They get the shapes of the results.
Status check_outputs(const Executor& executor) {
  Status status;
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    const aclTensor* handle = executor.places[view].tensor;
    if (!parameter.written || handle == nullptr || !status.ok() || find<TensorObject>(handle) != nullptr) return;
    status = explain<TensorObject>(handle, parameter.name);
  });
  if (status.ok()) return status;
  return {status.code(), text(status.message(), "; it gets the shape of the result: keep it until phase two has returned")};
}

void give_shapes(const Executor& executor) {
  if (executor.result_sizes.empty()) return;
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    auto* tensor = find<TensorObject>(executor.places[view].tensor);
    const at::IntArrayRef sizes = executor.result_sizes[view];
    if (parameter.written && tensor != nullptr && tensor->sizes() != sizes) tensor->set_dense_sizes(sizes);
  });
}

aclnnStatus finish_sync(Executor* executor, aclrtStream stream) {
  struct Release {
    Executor* executor;
    ~Release() { release_task(&executor); }
  } release{executor};
  const aclnnStatus code = aclrtSynchronizeStream(stream);
  if (code != ACL_SUCCESS) return code;
  Status status = check_outputs(*executor);
  if (!status.ok()) return fail(executor->operation->task.name, status);
  give_shapes(*executor);
  return ACLNN_SUCCESS;
}

}  // namespace

aclnnStatus launch(const Operation& operation, aclOpExecutor* handle, aclrtStream stream) {
  const char* name = operation.task.name;
  try {
    OwnedExecutor task(end_life<Executor>(handle));
    const bool used_once = task != nullptr;
    if (!used_once) [[unlikely]]
      task = copy_of_repeatable(handle);
    if (task == nullptr) return fail(name, explain<Executor>(handle, "executor"));
    if (task->operation != &operation) [[unlikely]] {
      if (used_once) task.release()->life.store(detail::number_of(handle), std::memory_order_release);
      return fail(name, Status(ACLNN_ERR_PARAM_INVALID, "argument 'executor' belongs to another function"));
    }
    if (is_limited()) [[unlikely]] {
      if (Status status = check_limits(*task); !status.ok()) return fail(name, status);
    }
    if (operation.sync) [[unlikely]] {
      if (Status status = check_outputs(*task); !status.ok()) return fail(name, status);
    }
    task->owners.store(operation.sync ? 2 : 1, std::memory_order_relaxed);
    const uint64_t cost = operation.heavy ? kHeavyCost * task->cost : task->cost;
    Executor* const payload = task.get();
    if (records_tensors()) [[unlikely]]
      record_tensors(*payload);
    const aclError code = driver()->launch(stream, &operation.task, &payload, sizeof payload, cost);
    if (code != ACL_SUCCESS) return code;
    (void)task.release();  // release_task() recycles it
    return operation.sync ? finish_sync(payload, stream) : ACLNN_SUCCESS;
  } catch (...) {
    return fail_by_exception(name);
  }
}

}  // namespace softnpu::ops
