#include "ops/executor.h"

#include <ATen/Parallel.h>

#include "acl/acl_rt.h"
#include "ops/alias.h"
#include "ops/chip_limits.h"
#include "ops/scope.h"
#include "runtime/message.h"

namespace softnpu::ops {
namespace {

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

Executor* copy_of(const Executor& source) {
  Executor* copy = Pool<Executor>::take();
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
  if (is_limited()) [[unlikely]] {
    run_within_limits(executor, tensors);
  } else {
    executor.operation->run(Arguments(executor, tensors));
  }
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

aclnnStatus finish_sync(Executor* executor, aclrtStream stream) {
  aclnnStatus code = aclrtSynchronizeStream(stream);
  if (code == ACL_SUCCESS) {
    for (size_t i = 0; i < executor->result_sizes.size(); ++i) {
      aclTensor* tensor = executor->places[i].tensor;
      if (tensor != nullptr && tensor->sizes() != at::IntArrayRef(executor->result_sizes[i])) {
        tensor->set_dense_sizes(executor->result_sizes[i]);
      }
    }
  }
  drop(executor);
  return code;
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
  executor->operation = nullptr;
  if (executor->numbers.capacity() > kLarge || executor->scalars.capacity() > kLarge) {
    delete executor;
    return;
  }
  executor->repeatable = false;
  executor->absent_scalars = 0;
  executor->values.clear();  // views, places and scalars get their number with the next call
  executor->slices.clear();
  executor->numbers.clear();
  executor->reals.clear();
  executor->strings.clear();
  executor->result_sizes.clear();
  Pool<Executor>::give(executor);
}

aclnnStatus launch(const Operation& operation, Executor* executor, aclrtStream stream) {
  const char* name = operation.task.name;
  if (executor == nullptr) return fail(name, Status(ACLNN_ERR_PARAM_NULLPTR, "argument 'executor' is null"));
  if (executor->operation != &operation) {
    const std::string owner = executor->operation == nullptr ? "was used already" : "belongs to another function";
    return fail(name, Status(ACLNN_ERR_PARAM_INVALID, text("argument 'executor' ", owner)));
  }
  try {
    if (is_limited()) [[unlikely]] {
      if (Status status = check_limits(*executor); !status.ok()) {
        if (!executor->repeatable) recycle(executor);
        return fail(name, status);
      }
    }
    Executor* task = executor->repeatable ? copy_of(*executor) : executor;
    task->owners.store(operation.sync ? 2 : 1, std::memory_order_relaxed);
    const uint64_t cost = operation.heavy ? kHeavyCost * task->cost : task->cost;
    const aclError code = driver()->launch(stream, &operation.task, &task, sizeof task, cost);
    if (code != ACL_SUCCESS) {
      recycle(task);
      return code;
    }
    return operation.sync ? finish_sync(task, stream) : ACLNN_SUCCESS;
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
