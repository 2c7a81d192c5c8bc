#include "ops/chip_limits.h"

#include <ATen/ops/nan_to_num.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ops/alias.h"

namespace softnpu::ops {
namespace {

constexpr double kLargestHalf = 65504;

void saturate_(at::Tensor& half) { half.nan_to_num_(0, kLargestHalf, -kLargestHalf); }

at::Tensor saturated(const at::Tensor& half) { return at::nan_to_num(half, 0, kLargestHalf, -kLargestHalf); }

bool uses_cube(const Operation& operation) {
  for (int i = 0; i < operation.parameter_count; ++i) {
    if (operation.parameters[i].name == std::string_view("cubeMathType")) return true;
  }
  return false;
}

// What is added to a product does not pass through the cube unit.
bool is_addend(const Operation& operation, const ParameterInfo& parameter) {
  const std::string_view name = parameter.name;
  return name == "bias" || (name == "self" && operation.scalar_count > 0);
}

bool imitates_chip() { return (__atomic_load_n(driver()->limits, __ATOMIC_RELAXED) & SOFTNPU_LIMITS_CHIP) != 0; }

// A call is of one device, that of any of its tensors.
bool runs_saturated(const Executor& executor) {
  return std::any_of(executor.views.begin(), executor.views.end(),
                     [](const TensorView& view) { return view.data != nullptr && driver()->saturates(view.data); });
}

}  // namespace

Status check_limits(const Executor& executor) {
  if (!imitates_chip()) return {};
  for (const TensorView& view : executor.views) {
    if (view.dtype != ACL_DOUBLE && view.dtype != ACL_COMPLEX128) continue;
    return {ACLNN_ERR_PARAM_INVALID, text("the chip does not compute in ", name_of(view.dtype),
                                          ": SOFTNPU_CHIP_LIMITS=1 imitates its limits. Use float32, or unset the variable")};
  }
  return {};
}

void run_within_limits(const Executor& executor, at::Tensor* tensors) {
  const Operation& operation = *executor.operation;
  const bool chip = imitates_chip();
  if (!chip && !runs_saturated(executor)) return operation.run(Arguments(executor, tensors));
  const bool cube = chip && uses_cube(operation);
  std::vector<at::Tensor> arguments(tensors, tensors + executor.views.size());
  std::vector<at::Tensor> results;
  for_each_view(executor, [&](const ParameterInfo& parameter, uint32_t number) {
    at::Tensor& tensor = arguments[number];
    const aclDataType dtype = executor.views[number].dtype;
    if (dtype == ACL_FLOAT16 && parameter.written) {
      saturate_(tensor);
      results.push_back(tensor);
    } else if (dtype == ACL_FLOAT16) {
      tensor = saturated(tensor);
    } else if (dtype == ACL_FLOAT && cube && !parameter.written && !is_addend(operation, parameter)) {
      tensor = saturated(tensor.to(at::kHalf)).to(at::kFloat);
    }
  });
  operation.run(Arguments(executor, arguments.data()));
  for (at::Tensor& result : results) saturate_(result);
}

}  // namespace softnpu::ops
