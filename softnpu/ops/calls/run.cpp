// The task of a call on its stream: executor.h.
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "ops/calls/alias.h"
#include "ops/calls/executor.h"
#include "ops/calls/scope.h"
#include "ops/calls/widening.h"
#include "ops/checks/chip_limits.h"
#include "runtime/base/message.h"

namespace softnpu::ops {
namespace {

// Kernels of at least this cost may use several threads.
constexpr uint64_t kParallelCost = 1024;

bool same_strides(const TensorView& view, at::IntArrayRef strides) {
  for (int i = 0; i < view.ndim; ++i) {
    if (view.strides[i] != strides[size_t(i)] && view.sizes[i] > 1) return false;
  }
  return true;
}

// A kernel may mark a result as conjugated or negated. The memory must hold the final values.
void resolve(at::Tensor& tensor) {
  const bool conjugated = tensor.is_conj();
  const bool negative = tensor.is_neg();
  tensor._set_conj(false);
  tensor._set_neg(false);
  if (conjugated) tensor.conj_physical_();
  if (negative) tensor.neg_();
}

// Checks that the kernel did not change the layout of its outputs.
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

// Whether no two elements share memory and there are no gaps between elements.
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

bool needs_dense_copy(const ParameterInfo& parameter, const TensorView& view, OutputLayout layout) {
  if (!parameter.written || view.contiguous || layout == OutputLayout::kAny) return false;
  return layout == OutputLayout::kDense || !is_without_gaps(view);
}

void run_on(Executor& executor, at::Tensor* tensors) {
  if (is_limited()) [[unlikely]] {
    run_within_limits(executor, tensors);
  } else {
    run_operation(executor, tensors);
  }
}

// The loops of a kernel with kDense outputs may run over the other sizes of an empty tensor.
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
  if (a.data != b.data || a.dtype != b.dtype || a.ndim != b.ndim) return false;
  return std::equal(a.sizes, a.sizes + a.ndim, b.sizes) &&
         (a.contiguous ? b.contiguous : std::equal(a.strides, a.strides + a.ndim, b.strides));
}

// Whether the kernel changes the view while it may still read it: a write to another output does so for an output, a write to any
// output for an input. ATen does not notice that, since each tensor of a call has a storage of its own. Outputs in
// lists are not checked.
bool is_overwritten(const Executor& executor, const ParameterInfo& parameter, uint32_t view) {
  const Operation& operation = *executor.operation;
  uint32_t output = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    if (operation.parameters[i].kind != ParameterKind::kTensor) continue;
    const uint32_t other = output++;
    if (!operation.parameters[i].written || other == view || (parameter.written && other > view)) continue;
    if (!overlap(executor, view, other)) continue;
    const bool is_harmless =
        !parameter.written && operation.elementwise && is_same_view(executor.views[view], executor.views[other]);
    if (!is_harmless) return true;
  }
  return false;
}

// Copies the tensors that the kernel cannot use directly. `used` gets the tensors for the kernel. False if no copy is needed.
bool make_copies(const Executor& executor, const at::Tensor* tensors, std::vector<at::Tensor>& used) {
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    if (executor.views[view].numel == 0) return;
    const bool is_strided = needs_dense_copy(parameter, executor.views[view], executor.operation->outputs);
    if (!is_strided && !is_overwritten(executor, parameter, view)) return;
    if (used.empty()) used.assign(tensors, tensors + executor.views.size());
    used[view] = tensors[view].clone(is_strided ? at::MemoryFormat::Contiguous : at::MemoryFormat::Preserve);
  });
  return !used.empty();
}

void run_with_copies(Executor& executor, at::Tensor* tensors) {
  std::vector<at::Tensor> used;
  if (!make_copies(executor, tensors, used)) return run_on(executor, tensors);
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
  // torch.set_num_threads does not change existing threads, such as workers and the threads of autograd.
  if (executor.cost >= kParallelCost) at::init_num_threads();
  AliasTensors& aliases = AliasTensors::of_this_thread();
  at::Tensor* tensors = aliases.bind(executor);
  struct Settle {
    AliasTensors& aliases;
    size_t count;
    ~Settle() { aliases.settle(count); }
  } settle{aliases, executor.views.size()};
  const KernelScope scope;
  if (!has_nothing_to_write(executor)) run_with_copies(executor, tensors);
  if (executor.operation->sync) {
    keep_result_sizes(executor, tensors);
  } else {
    check_results(executor, tensors);
  }
}

// With red zones on: checks that the kernel did not write outside of its tensors.
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

// The result of a task whose kernel succeeded.
aclError check_afterwards(const Executor& executor, char* message) {
  static const bool has_zones = driver()->check_zones != nullptr;
  if (has_zones) [[unlikely]]
    return check_zones(executor, message);
  return ACL_SUCCESS;
}

}  // namespace

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

}  // namespace softnpu::ops
