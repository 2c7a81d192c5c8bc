#include "ops/check.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "ops/alias.h"
#include "ops/scope.h"

namespace softnpu::ops {
namespace {

std::string shape_text(const TensorView& view) { return text(at::IntArrayRef(view.sizes, size_t(view.ndim))); }

// The name of the parameter that a view belongs to.
std::string view_name(const Executor& executor, size_t number) {
  const Operation& operation = *executor.operation;
  size_t single = 0;
  size_t slice = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    const ParameterInfo& parameter = operation.parameters[i];
    if (parameter.kind == ParameterKind::kTensor && single++ == number) return parameter.name;
    if (parameter.kind < ParameterKind::kTensorList) continue;
    const Executor::Slice& range = executor.slices[slice++];
    if (parameter.kind == ParameterKind::kTensorList && number >= range.begin && number < range.begin + range.count) {
      return text(parameter.name, "[", number - range.begin, "]");
    }
  }
  return "?";
}

bool is_written(const Operation& operation, size_t view) {
  size_t single = 0;
  for (int i = 0; i < operation.parameter_count; ++i) {
    if (operation.parameters[i].kind == ParameterKind::kTensor && single++ == view) return operation.parameters[i].written;
  }
  return false;
}

bool is_promoted_to(uint64_t allowed, const Executor& executor) {
  for (size_t i = 0; i < size_t(executor.operation->tensor_count); ++i) {
    const bool is_read = i == 0 || !is_written(*executor.operation, i);
    const aclDataType dtype = executor.views[i].dtype;
    if (is_read && dtype != ACL_DT_UNDEFINED && allowed >> dtype & 1) return true;
  }
  return false;
}

// Rare types are found out by trying.
Status check_dtype(const Executor& executor) {
  const uint64_t allowed = executor.operation->dtypes;
  if (allowed == 0 || executor.views.empty()) return {};
  const TensorView& view = executor.views.front();
  if (view.dtype == ACL_DT_UNDEFINED || is_rare(view.dtype) || allowed >> view.dtype & 1) return {};
  if (executor.operation->promotes && is_promoted_to(allowed, executor)) return {};
  std::string names;
  for (int type = 0; type < kDataTypes; ++type) {
    if (allowed >> type & 1) names += (names.empty() ? "" : ", ") + name_of(aclDataType(type));
  }
  return {ACLNN_ERR_PARAM_INVALID, text("\"", executor.operation->task.name, "\" not implemented for '",
                                        scalar_type_of(view.dtype), "': argument '", view_name(executor, 0), "' may be ", names)};
}

bool broadcasts(const TensorView& from, const TensorView& to) {
  if (from.ndim > to.ndim) return false;
  for (int i = 1; i <= from.ndim; ++i) {
    const int64_t size = from.sizes[from.ndim - i];
    if (size != 1 && size != to.sizes[to.ndim - i]) return false;
  }
  return true;
}

Status check_rule(const Executor& executor) {
  const Operation& operation = *executor.operation;
  if (operation.shapes == ShapeRule::kNone) return {};
  const bool same = operation.shapes == ShapeRule::kSame;
  for (size_t output = 0; output < size_t(operation.tensor_count); ++output) {
    const TensorView& to = executor.views[output];
    if (!is_written(operation, output) || to.dtype == ACL_DT_UNDEFINED) continue;
    for (size_t other = 0; other < executor.views.size(); ++other) {
      const TensorView& from = executor.views[other];
      if (from.dtype == ACL_DT_UNDEFINED || other == output) continue;
      if (same ? (from.ndim == to.ndim && broadcasts(from, to) && broadcasts(to, from)) : broadcasts(from, to)) continue;
      return {ACLNN_ERR_PARAM_INVALID, text("argument '", view_name(executor, other), "' of shape ", shape_text(from),
                                            same ? " should have the shape of '" : " does not broadcast to '",
                                            view_name(executor, output), "', ", shape_text(to))};
    }
    if (same) break;
  }
  return {};
}

Status ask_meta(const Executor& executor) {
  const Operation& operation = *executor.operation;
  if (operation.meta == nullptr) return {};
  try {
    const KernelScope scope;
    std::vector<at::Tensor> tensors;
    for (const TensorView& view : executor.views) {
      const at::IntArrayRef sizes(view.sizes, size_t(view.ndim));
      const at::IntArrayRef strides(view.strides, size_t(view.ndim));
      tensors.push_back(view.dtype == ACL_DT_UNDEFINED
                            ? at::Tensor()
                            : at::detail::empty_strided_meta(sizes, strides, scalar_type_of(view.dtype)));
    }
    operation.meta(Arguments(executor, tensors.data()));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const at::IntArrayRef sizes(executor.views[i].sizes, size_t(executor.views[i].ndim));
      if (!tensors[i].defined() || tensors[i].sizes() == sizes) continue;
      return {ACLNN_ERR_PARAM_INVALID, text("argument '", view_name(executor, i), "' has shape ", sizes,
                                            ", but the result has shape ", tensors[i].sizes())};
    }
    return {};
  } catch (const std::exception& error) {
    return {ACLNN_ERR_PARAM_INVALID, text(describe_arguments(executor), ": ", plain_message(error))};
  }
}

bool has_rare_type(const Executor& executor) {
  return std::ranges::any_of(executor.views, [](const TensorView& view) { return is_rare(view.dtype); });
}

// Runs the kernel once on tensors of its own. Only the lack of a type is a refusal: these values may be wrong for the kernel.
Status try_kernel(const Executor& executor) {
  try {
    const KernelScope scope;
    std::vector<at::Tensor> tensors;
    for (const TensorView& view : executor.views) {
      const at::IntArrayRef sizes(view.sizes, size_t(view.ndim));
      tensors.push_back(view.dtype == ACL_DT_UNDEFINED ? at::Tensor()
                        : is_rare(view.dtype)          ? at::ones(sizes, scalar_type_of(view.dtype))
                                                       : at::zeros(sizes, scalar_type_of(view.dtype)));
    }
    executor.operation->run(Arguments(executor, tensors.data()));
  } catch (const std::exception& error) {
    const std::string message = plain_message(error);
    for (const char* words : {"not implemented for", "not supported", "Unsupported dtype"}) {
      if (message.find(words) == std::string::npos) continue;
      return {ACLNN_ERR_PARAM_INVALID, text(describe_arguments(executor), ": ", message)};
    }
  }
  return {};
}

bool is_remembered(const Executor& executor) {
  const uint64_t hash = detail::hash_of(executor);
  return detail::slot_of(hash).load(std::memory_order_relaxed) == hash;
}

}  // namespace

constinit std::array<std::atomic<uint64_t>, detail::kRemembered> detail::remembered{};

Status check_arguments(const Executor& executor) {
  const bool rare = has_rare_type(executor);
  if (rare ? is_remembered(executor) : passed_before(executor)) [[likely]]
    return {};
  SOFTNPU_RETURN_IF_ERROR(check_dtype(executor));
  SOFTNPU_RETURN_IF_ERROR(check_rule(executor));
  SOFTNPU_RETURN_IF_ERROR(ask_meta(executor));
  if (rare) SOFTNPU_RETURN_IF_ERROR(try_kernel(executor));
  const uint64_t hash = detail::hash_of(executor);
  detail::slot_of(hash).store(hash, std::memory_order_relaxed);
  return {};
}

}  // namespace softnpu::ops
