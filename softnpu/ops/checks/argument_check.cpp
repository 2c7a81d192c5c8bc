#include "ops/checks/argument_check.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "ops/calls/alias.h"
#include "ops/calls/scope.h"
#include "ops/checks/shapes.h"

namespace softnpu::ops {
namespace {

// The largest number of a type; infinity for bool, which every number converts to.
double largest_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
    case at::kComplexHalf:
      return double(std::numeric_limits<at::Half>::max());
    case at::kBFloat16:
      return double(std::numeric_limits<at::BFloat16>::max());
    case at::kFloat:
    case at::kComplexFloat:
      return double(std::numeric_limits<float>::max());
    case at::kChar:
      return double(std::numeric_limits<int8_t>::max());
    case at::kByte:
      return double(std::numeric_limits<uint8_t>::max());
    case at::kShort:
      return double(std::numeric_limits<int16_t>::max());
    case at::kInt:
      return double(std::numeric_limits<int32_t>::max());
    case at::kLong:
      return 0x1p62;  // exact as a double; the kernel is tried with larger numbers
    case at::kDouble:
    case at::kComplexDouble:
      return std::numeric_limits<double>::max();
    case at::kBool:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;  // rare types: the kernel is tried
  }
}

std::string shape_text(const TensorView& view) { return text(at::IntArrayRef(view.sizes, size_t(view.ndim))); }

// The name of the argument that a view belongs to.
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

// Accepts rare types: for them the kernel is tried.
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

// Checks that an output has exactly the common shape of the inputs, which all broadcast to it.
Status check_common_shape(const Executor& executor, size_t output) {
  const TensorView& to = executor.views[output];
  int rank = 0;
  std::vector<int64_t> sizes(size_t(to.ndim), 1);
  for (size_t other = 0; other < executor.views.size(); ++other) {
    const TensorView& from = executor.views[other];
    if (from.dtype == ACL_DT_UNDEFINED || is_written(*executor.operation, other)) continue;
    rank = std::max(rank, from.ndim);
    for (int i = 1; i <= from.ndim; ++i) {
      if (from.sizes[from.ndim - i] != 1) sizes[size_t(to.ndim - i)] = from.sizes[from.ndim - i];
    }
  }
  if (rank == to.ndim && std::equal(sizes.begin(), sizes.end(), to.sizes)) return {};
  return {ACLNN_ERR_PARAM_INVALID, text("argument '", view_name(executor, output), "' has shape ", shape_text(to),
                                        ", but the inputs broadcast to ", at::IntArrayRef(sizes).slice(size_t(to.ndim - rank)))};
}

Status check_shape_rule(const Executor& executor) {
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
    if (operation.shapes == ShapeRule::kBroadcast) SOFTNPU_RETURN_IF_ERROR(check_common_shape(executor, output));
  }
  return {};
}

// A sync function changes the shapes of its outputs, which must be dense for that.
Status check_sync_outputs(const Executor& executor) {
  if (!executor.operation->sync) return {};
  Status status;
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t view) {
    if (!parameter.written || executor.views[view].contiguous || !status.ok()) return;
    status = {ACLNN_ERR_PARAM_INVALID, text("argument '", parameter.name, "' should be dense: the call decides its shape")};
  });
  return status;
}

Status check_meta(const Executor& executor) {
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

// The largest size of tensors for a trial: large enough to enter every loop of a kernel.
constexpr int64_t kTrialSize = 2;

// Equal sizes stay equal, so that shapes that fit each other still fit.
std::vector<int64_t> trial_sizes(const TensorView& view, bool whole) {
  std::vector<int64_t> sizes(view.sizes, view.sizes + view.ndim);
  if (!whole) {
    for (int64_t& size : sizes) size = std::min(size, kTrialSize);
  }
  return sizes;
}

std::vector<at::Tensor> trial_tensors(const Executor& executor, bool whole, bool all_ones) {
  std::vector<at::Tensor> tensors;
  for (const TensorView& view : executor.views) {
    if (view.dtype == ACL_DT_UNDEFINED) {
      tensors.emplace_back();
      continue;
    }
    const std::vector<int64_t> sizes = trial_sizes(view, whole);
    const at::ScalarType dtype = scalar_type_of(view.dtype);
    tensors.push_back(all_ones || is_rare(view.dtype) ? at::ones(sizes, dtype) : at::zeros(sizes, dtype));
  }
  return tensors;
}

// The error message of the kernel for trial tensors; empty if it succeeds.
std::string trial_message(const Executor& executor, bool whole, bool all_ones) {
  try {
    const KernelScope scope;
    std::vector<at::Tensor> tensors = trial_tensors(executor, whole, all_ones);
    executor.operation->run(Arguments(executor, tensors.data()));
    return {};
  } catch (const std::exception& error) {
    return plain_message(error);
  }
}

bool contains_any(const std::string& message, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* word) { return message.find(word) != std::string::npos; });
}

// Runs the kernel once on trial tensors. Only an unsupported type and a number that does not fit count as failures, because the
// kernel may refuse the contents of trial tensors for other reasons. The tensors hold zeros, which are valid indices. After a
// division by 0 they hold ones, to tell a Scalar of 0 from a tensor of zeros.
Status try_kernel(const Executor& executor, bool whole) {
  std::string message = trial_message(executor, whole, /*all_ones=*/false);
  if (contains_any(message, {"ZeroDivisionError"})) message = trial_message(executor, whole, /*all_ones=*/true);
  if (!contains_any(message,
                    {"not implemented for", "not supported", "Unsupported dtype", "without overflow", "ZeroDivisionError",
                     "can't be cast to the desired output type", "Expected a non-complex scalar", "Unrecognized ScalarType"})) {
    return {};
  }
  return {ACLNN_ERR_PARAM_INVALID, text(describe_arguments(executor), ": ", message)};
}

// A range computes its size from its Scalars, so that a trial with smaller tensors fails.
bool is_range(const Operation& operation) {
  const std::string_view name = operation.task.name;
  return name == "aclnnArange" || name == "aclnnRange";
}

bool takes_numbers(const Executor& executor) {
  return !executor.scalars.empty() && !executor.operation->sync && !is_range(*executor.operation);
}

// A hash of everything except shapes that decides whether the kernel accepts the call. A division refuses a Scalar of 0, and ATen
// promotes types differently for tensors of one element.
uint64_t hash_of_types(const Executor& executor) {
  detail::Hash hash(~reinterpret_cast<uintptr_t>(executor.operation));
  for (const TensorView& view : executor.views) hash.add(uint64_t(view.dtype), uint64_t(std::min(view.numel, kTrialSize)));
  for (const at::Scalar& scalar : executor.scalars) {
    const bool is_zero = scalar.isIntegral(/*includeBool=*/true) && detail::bits_of(scalar) == 0;
    hash.add(uint64_t(scalar.type()), uint64_t(is_zero));
  }
  hash.add(executor.absent_scalars, detail::has_unusual_number(executor) ? detail::hash_of_values(executor) : 0);
  return hash.value();
}

Status try_numbers(const Executor& executor) {
  const uint64_t hash = hash_of_types(executor);
  if (detail::slot_of(hash).load(std::memory_order_relaxed) == hash) return {};
  SOFTNPU_RETURN_IF_ERROR(try_kernel(executor, /*whole=*/false));
  detail::slot_of(hash).store(hash, std::memory_order_relaxed);
  return {};
}

bool is_remembered(const Executor& executor) {
  const uint64_t hash = detail::hash_of(executor);
  return detail::slot_of(hash).load(std::memory_order_relaxed) == hash;
}

}  // namespace

constinit std::array<std::atomic<uint64_t>, detail::kRemembered> detail::remembered{};

bool detail::fits_tensors(const at::Scalar& scalar, const Executor& executor) {
  const c10::complex<double> number = scalar.toComplexDouble();
  const double value = std::max(std::abs(number.real()), std::abs(number.imag()));
  const bool finite = std::isfinite(number.real()) && std::isfinite(number.imag());
  return std::ranges::all_of(executor.views, [&](const TensorView& view) {
    if (view.dtype == ACL_DT_UNDEFINED) return true;
    const at::ScalarType dtype = scalar_type_of(view.dtype);
    if (scalar.isComplex() && !at::isComplexType(dtype)) return false;
    return finite ? value <= largest_of(dtype) : !at::isIntegralType(dtype, /*includeBool=*/false);
  });
}

uint64_t detail::hash_of_values(const Executor& executor) {
  Hash hash(executor.scalars.size());
  for (const at::Scalar& scalar : executor.scalars) {
    const c10::complex<double> value = scalar.toComplexDouble();
    hash.add(std::bit_cast<uint64_t>(value.real()), std::bit_cast<uint64_t>(value.imag()));
  }
  return hash.value();
}

Status check_arguments(const Executor& executor) {
  const bool rare = has_rare_type(executor);
  if (rare ? is_remembered(executor) : passed_before(executor)) [[likely]]
    return {};
  SOFTNPU_RETURN_IF_ERROR(check_dtype(executor));
  SOFTNPU_RETURN_IF_ERROR(check_shape_rule(executor));
  SOFTNPU_RETURN_IF_ERROR(check_sync_outputs(executor));
  if (executor.operation->rules != nullptr) SOFTNPU_RETURN_IF_ERROR(check_rules(*executor.operation->rules, executor));
  SOFTNPU_RETURN_IF_ERROR(check_meta(executor));
  if (rare) SOFTNPU_RETURN_IF_ERROR(try_kernel(executor, /*whole=*/true));
  if (takes_numbers(executor)) SOFTNPU_RETURN_IF_ERROR(try_numbers(executor));
  const uint64_t hash = detail::hash_of(executor);
  detail::slot_of(hash).store(hash, std::memory_order_relaxed);
  return {};
}

}  // namespace softnpu::ops
