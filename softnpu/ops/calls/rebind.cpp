// The functions of repeatable executors: executor.h.
#include <string_view>

#include "ops/calls/executor.h"

namespace softnpu::ops {
namespace {

enum class Role { kAny, kInput, kOutput };

// Whether a parameter is an input or an output. A parameter named ...Ref is read and written, and counts as both.
bool plays(const ParameterInfo& parameter, Role role) {
  if (!parameter.is_tensor()) return false;
  const std::string_view name = parameter.name;
  const bool both = parameter.written && name.ends_with("Ref");
  return role == Role::kAny || both || (role == Role::kOutput) == parameter.written;
}

Status explain_repeatable(const aclOpExecutor* handle) {
  if (find<Executor>(handle) == nullptr) return explain<Executor>(handle, "executor");
  return {ACLNN_ERR_PARAM_INVALID, "the executor is not repeatable; call aclSetAclOpExecutorRepeatable"};
}

// Moves view number `relative` of the `index`-th tensor or list parameter of a role to another storage.
Status rebind(Executor& executor, Role role, size_t index, size_t relative, void* address) {
  const Operation& operation = *executor.operation;
  size_t found = 0;
  size_t single = 0;
  size_t slice = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    const ParameterInfo& parameter = operation.parameters[i];
    const bool is_list = parameter.kind == ParameterKind::kTensorList;
    const Executor::Slice range = is_list ? executor.slices[slice] : Executor::Slice{uint32_t(single), 1, true};
    single += parameter.kind == ParameterKind::kTensor;
    slice += parameter.kind >= ParameterKind::kTensorList;
    if (!plays(parameter, role) || found++ != index) continue;
    if (relative >= range.count) {
      return {ACLNN_ERR_PARAM_INVALID, text("argument '", parameter.name, "' has ", range.count, " tensors, not ", relative + 1)};
    }
    const size_t view = range.begin + relative;
    Status status = locate_view(address, executor.places[view], executor.views[view]);
    return status.ok() ? Status() : Status(status.code(), text("argument '", parameter.name, "': ", status.message()));
  }
  return {ACLNN_ERR_PARAM_INVALID, text(operation.task.name, " has ", found, " such tensor parameters, not ", index + 1)};
}

// The same. Also sets the address of `tensor`, unless it is null.
aclnnStatus rebind(const char* function, const aclOpExecutor* handle, Role role, size_t index, size_t relative,
                   TensorObject* tensor, void* address) {
  const std::lock_guard lock(repeatable_mutex());
  Executor* executor = find_repeatable(handle);
  if (executor == nullptr) return fail(function, explain_repeatable(handle));
  if (Status status = rebind(*executor, role, index, relative, address); !status.ok()) return fail(function, status);
  if (tensor != nullptr) tensor->address = address;
  return ACLNN_SUCCESS;
}

aclnnStatus rebind_single(const char* function, const aclOpExecutor* executor, Role role, size_t index, const aclTensor* handle,
                          void* address) {
  auto* tensor = find<TensorObject>(handle);
  if (handle != nullptr && tensor == nullptr) return fail(function, explain<TensorObject>(handle, "tensor"));
  return rebind(function, executor, role, index, 0, tensor, address);
}

aclnnStatus rebind_element(const char* function, const aclOpExecutor* executor, Role role, size_t index, size_t relative,
                           const aclTensorList* handle, void* address) {
  const auto* list = find<TensorListObject>(handle);
  if (handle != nullptr && list == nullptr) return fail(function, explain<TensorListObject>(handle, "tensors"));
  const aclTensor* element = list != nullptr && relative < list->values.size() ? list->values[relative] : nullptr;
  auto* tensor = find<TensorObject>(element);
  if (element != nullptr && tensor == nullptr) {
    return fail(function, explain<TensorObject>(element, text("tensors[", relative, "]")));
  }
  return rebind(function, executor, role, index, relative, tensor, address);
}

}  // namespace
}  // namespace softnpu::ops

using softnpu::ops::Executor;
using softnpu::ops::explain;
using softnpu::ops::fail;
using softnpu::ops::rebind_element;
using softnpu::ops::rebind_single;
using softnpu::ops::Role;

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (softnpu::ops::make_repeatable(executor)) return ACLNN_SUCCESS;
  return fail("aclSetAclOpExecutorRepeatable", explain<Executor>(executor, "executor"));
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* handle) {
  auto* executor = softnpu::ops::end_life<Executor>(handle);
  if (executor == nullptr) {
    const std::lock_guard lock(softnpu::ops::repeatable_mutex());
    executor = softnpu::ops::end_repeatable(handle);
  }
  if (executor == nullptr) return fail("aclDestroyAclOpExecutor", explain<Executor>(handle, "executor"));
  softnpu::ops::recycle(executor);
  return ACLNN_SUCCESS;
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  return rebind_single("aclSetInputTensorAddr", executor, Role::kInput, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  return rebind_single("aclSetOutputTensorAddr", executor, Role::kOutput, index, tensor, addr);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  return rebind_single("aclSetTensorAddr", executor, Role::kAny, index, tensor, addr);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList* tensors, void* addr) {
  return rebind_element("aclSetDynamicInputTensorAddr", executor, Role::kInput, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList* tensors, void* addr) {
  return rebind_element("aclSetDynamicOutputTensorAddr", executor, Role::kOutput, irIndex, relativeIndex, tensors, addr);
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex, aclTensorList* tensors,
                                    void* addr) {
  return rebind_element("aclSetDynamicTensorAddr", executor, Role::kAny, irIndex, relativeIndex, tensors, addr);
}

// Older programs use these names with a capital letter.
#define SOFTNPU_ALIAS(name, ...) extern "C" ACL_FUNC_VISIBILITY aclnnStatus A##name(__VA_ARGS__) __attribute__((alias("a" #name)))
SOFTNPU_ALIAS(clSetInputTensorAddr, aclOpExecutor*, const size_t, aclTensor*, void*);
SOFTNPU_ALIAS(clSetOutputTensorAddr, aclOpExecutor*, const size_t, aclTensor*, void*);
SOFTNPU_ALIAS(clSetTensorAddr, aclOpExecutor*, const size_t, aclTensor*, void*);
SOFTNPU_ALIAS(clSetDynamicInputTensorAddr, aclOpExecutor*, size_t, const size_t, aclTensorList*, void*);
SOFTNPU_ALIAS(clSetDynamicOutputTensorAddr, aclOpExecutor*, size_t, const size_t, aclTensorList*, void*);
SOFTNPU_ALIAS(clSetDynamicTensorAddr, aclOpExecutor*, size_t, const size_t, aclTensorList*, void*);
