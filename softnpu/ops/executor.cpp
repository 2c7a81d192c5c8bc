#include "ops/executor.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "ops/alias.h"
#include "ops/chip_limits.h"
#include "ops/scope.h"
#include "runtime/base/message.h"

namespace softnpu::ops {
namespace {

// Frees what vectors hold.
template <typename... Vectors>
void renew(Vectors&... vectors) {
  (std::destroy_at(&vectors), ...);
  (std::construct_at(&vectors), ...);
}

// Elements from which on a kernel may use more than one thread.
constexpr uint64_t kParallelCost = 1024;

// What an element of a heavy kernel costs, in elements of an elementwise one.
constexpr uint64_t kHeavyCost = 4;

std::string scalar_text(const at::Scalar& scalar) {
  if (scalar.isComplex()) return text(scalar.toComplexDouble());
  if (scalar.isFloatingPoint()) return text(scalar.toDouble());
  if (scalar.isBoolean()) return scalar.toBool() ? "true" : "false";
  return scalar.isUnsigned() ? text(scalar.toUInt64()) : text(scalar.toLong());
}

void drop(Executor* executor) {
  const bool is_last = executor->owners.load(std::memory_order_acquire) == 1;
  if (is_last || executor->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) recycle(executor);
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

bool same_strides(const TensorView& view, at::IntArrayRef strides) {
  for (int i = 0; i < view.ndim; ++i) {
    if (view.strides[i] != strides[size_t(i)] && view.sizes[i] > 1) return false;
  }
  return true;
}

// A kernel may mark a result as to be conjugated or negated; memory has no such mark.
void resolve(at::Tensor& tensor) {
  const bool conjugated = tensor.is_conj();
  const bool negative = tensor.is_neg();
  tensor._set_conj(false);
  tensor._set_neg(false);
  if (conjugated) tensor.conj_physical_();
  if (negative) tensor.neg_();
}

// A kernel must leave the layout of its outputs alone.
void check_results(const Executor& executor, at::Tensor* tensors) {
  for (size_t i = 0; i < executor.views.size(); ++i) {
    const TensorView& view = executor.views[i];
    if (view.dtype == ACL_DT_UNDEFINED) continue;
    const at::IntArrayRef sizes(view.sizes, size_t(view.ndim));
    TORCH_CHECK(tensors[i].sizes() == sizes, "an output of shape ", sizes, " was given, the result has shape ",
                tensors[i].sizes());
    if (tensors[i].is_conj() || tensors[i].is_neg()) [[unlikely]]
      resolve(tensors[i]);
    TORCH_CHECK(same_strides(view, tensors[i].strides()), "the kernel gave an output of shape ", sizes, " other strides");
  }
}

// The kernel of a sync function decides the shape of its outputs.
void keep_result_sizes(Executor& executor, const at::Tensor* tensors) {
  executor.result_sizes.clear();
  for (size_t i = 0; i < executor.views.size(); ++i) {
    executor.result_sizes.emplace_back();
    if (executor.views[i].dtype == ACL_DT_UNDEFINED) continue;
    executor.result_sizes.back().append(tensors[i].sizes().begin(), tensors[i].sizes().end());
  }
}

// Whether no two elements share memory and nothing lies between them.
bool is_without_gaps(const TensorView& view) {
  if (view.contiguous || view.numel < 2) return true;
  c10::SmallVector<int, 8> order;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.sizes[i] != 1) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](int dim) { return view.strides[dim]; });
  int64_t stride = 1;
  for (const int dim : order) {
    if (view.strides[dim] != stride) return false;
    stride *= view.sizes[dim];
  }
  return true;
}

bool needs_stand_in(const ParameterInfo& parameter, const TensorView& view, OutputLayout layout) {
  if (!parameter.written || view.contiguous || layout == OutputLayout::kAny) return false;
  return layout == OutputLayout::kDense || !is_without_gaps(view);
}

void run_on(Executor& executor, at::Tensor* tensors) {
  if (is_limited()) [[unlikely]] {
    run_within_limits(executor, tensors);
  } else {
    executor.operation->run(Arguments(executor, tensors));
  }
}

// Loops of such a kernel may run over the other sizes of a tensor without elements.
bool has_nothing_to_write(const Executor& executor) {
  if (executor.operation->outputs != OutputLayout::kDense) return false;
  bool empty = true;
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    empty &= !parameter.written || executor.views[view].numel == 0;
  });
  return empty;
}

bool overlap(const Executor& executor, uint32_t a, uint32_t b) {
  const auto begin = reinterpret_cast<uintptr_t>(executor.views[a].data),
             other = reinterpret_cast<uintptr_t>(executor.views[b].data);
  return other < begin + uint64_t(executor.places[a].bytes) && begin < other + uint64_t(executor.places[b].bytes);
}

bool is_same_view(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.dtype == b.dtype && a.numel == b.numel;
}

// Whether writing another output changes the view: an output, or indices, which kernels read again after they checked them. Lists
// are not asked about.
bool is_overwritten(const Executor& executor, const ParameterInfo& parameter, uint32_t view) {
  const aclDataType dtype = executor.views[view].dtype;
  const bool has_indices = !parameter.written && (dtype == ACL_INT64 || dtype == ACL_INT32);
  if (!has_indices && !parameter.written) return false;
  const Operation& operation = *executor.operation;
  uint32_t output = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    if (operation.parameters[i].kind != ParameterKind::kTensor) continue;
    const uint32_t other = output++;
    if (!operation.parameters[i].written || other == view || (parameter.written && other > view)) continue;
    if (overlap(executor, view, other) && (parameter.written || !is_same_view(executor.views[view], executor.views[other]))) {
      return true;
    }
  }
  return false;
}

// Puts other tensors in the place of those that the kernel cannot take as they are; false if there are none.
bool find_stand_ins(const Executor& executor, const at::Tensor* tensors, std::vector<at::Tensor>& used) {
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    if (executor.views[view].numel == 0) return;
    const bool is_strided = needs_stand_in(parameter, executor.views[view], executor.operation->outputs);
    if (!is_strided && !is_overwritten(executor, parameter, view)) return;
    if (used.empty()) used.assign(tensors, tensors + executor.views.size());
    used[view] = tensors[view].clone(is_strided ? at::MemoryFormat::Contiguous : at::MemoryFormat::Preserve);
  });
  return !used.empty();
}

void run_with_stand_ins(Executor& executor, at::Tensor* tensors) {
  std::vector<at::Tensor> used;
  if (!find_stand_ins(executor, tensors, used)) return run_on(executor, tensors);
  const std::vector<at::Tensor> given = used;
  run_on(executor, used.data());
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    if (!parameter.written || given[view].is_same(tensors[view])) return;
    TORCH_CHECK(used[view].sizes() == tensors[view].sizes(), "an output of shape ", tensors[view].sizes(),
                " was given, the result has shape ", used[view].sizes());
    tensors[view].copy_(used[view]);
  });
}

void run_kernel(Executor& executor) {
  // A change by torch.set_num_threads does not reach threads that exist, such as workers and autograd's threads.
  if (executor.cost >= kParallelCost) at::init_num_threads();
  AliasTensors& aliases = AliasTensors::of_this_thread();
  at::Tensor* tensors = aliases.bind(executor);
  struct Settle {
    AliasTensors& aliases;
    size_t count;
    ~Settle() { aliases.settle(count); }
  } settle{aliases, executor.views.size()};
  const KernelScope scope;
  if (!has_nothing_to_write(executor)) run_with_stand_ins(executor, tensors);
  if (executor.operation->sync) {
    keep_result_sizes(executor, tensors);
  } else {
    check_results(executor, tensors);
  }
}

// Where red zones are on: whether the kernel wrote beside one of its tensors.
aclError check_zones(const Executor& executor, char* message) {
  char damage[SOFTNPU_TASK_MESSAGE];
  for (const TensorView& view : executor.views) {
    if (view.dtype == ACL_DT_UNDEFINED || view.data == nullptr) continue;
    const aclError code = driver()->check_zones(view.data, damage);
    if (code == ACL_SUCCESS) continue;
    const std::string reason = text(executor.operation->task.name, "(", describe_arguments(executor), "): ", damage);
    write_message(message, reason);
    return code;
  }
  return ACL_SUCCESS;
}

// The outcome of a task whose kernel succeeded.
aclError check_afterwards(const Executor& executor, char* message) {
  static const bool has_zones = driver()->check_zones != nullptr;
  if (has_zones) [[unlikely]]
    return check_zones(executor, message);
  return ACL_SUCCESS;
}

// A sync function needs the tensors that it gives a shape: one that is gone may be another by now.
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
  struct Drop {
    Executor* executor;
    ~Drop() { drop(executor); }
  } const drop_at_end{executor};
  const aclnnStatus code = aclrtSynchronizeStream(stream);
  if (code != ACL_SUCCESS) return code;
  Status status = check_outputs(*executor);
  if (!status.ok()) return fail(executor->operation->task.name, status);
  give_shapes(*executor);
  return ACLNN_SUCCESS;
}

// What a repeatable executor has as its life, so that nobody takes it for one that is used once.
uint64_t repeatable_life(const aclOpExecutor* handle) {
  constexpr uint64_t kMark = uint64_t{0x80} << detail::kKindShift;
  return detail::number_of(handle) ^ kMark;
}

OwnedExecutor copy_of_repeatable(const aclOpExecutor* handle) {
  const std::lock_guard lock(repeatable_mutex());
  const Executor* executor = find_repeatable(handle);
  return executor == nullptr ? nullptr : copy_of(*executor);
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
  executor->values.clear();  // views, places and scalars get their number with the next call
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
    const aclError code = driver()->launch(stream, &operation.task, &payload, sizeof payload, cost);
    if (code != ACL_SUCCESS) return code;
    (void)task.release();  // the task's own
    return operation.sync ? finish_sync(payload, stream) : ACLNN_SUCCESS;
  } catch (...) {
    return fail_by_exception(name);
  }
}

aclError run_task(void* payload, char* message) {
  Executor& executor = **static_cast<Executor**>(payload);
  const Operation& operation = *executor.operation;
  try {
    if (operation.engine != nullptr && !is_limited() &&
        operation.engine(executor.views.data(), int(executor.views.size()), executor.scalars.data())) {
      return check_afterwards(executor, message);
    }
    run_kernel(executor);
    return check_afterwards(executor, message);
  } catch (const std::exception& error) {
    const char* kind = dynamic_cast<const c10::IndexError*>(&error) == nullptr ? "" : "IndexError: ";
    const std::string reason = text(operation.task.name, "(", describe_arguments(executor), "): ", kind, plain_message(error));
    write_message(message, reason);
    return ACL_ERROR_RT_AICORE_EXCEPTION;
  }
}

void release_task(void* payload) { drop(*static_cast<Executor**>(payload)); }

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
