#include "ops/checks/chip_limits.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/nan_to_num.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "ops/calls/widening.h"

namespace softnpu::ops {
namespace {

// Sets of data types, one bit per aclDataType.
using Types = uint64_t;
constexpr Types kHalf = Types{1} << ACL_FLOAT16;
constexpr Types kFloating = kHalf | Types{1} << ACL_BF16 | Types{1} << ACL_FLOAT;

bool contains(Types types, aclDataType dtype) { return dtype != ACL_DT_UNDEFINED && types >> dtype & 1; }

bool is_any_of(const char* name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool converts(const Operation& operation) { return is_any_of(operation.task.name, {"aclnnCast", "aclnnInplaceCopy"}); }

bool moves(const Operation& operation) { return converts(operation) || is_any_of(operation.task.name, {"aclnnCat"}); }

// Operators that store numbers unchanged, that check for infinity and NaN, or whose results contain the logarithm of 0 (CTC). abs
// is part of isinf.
bool keeps_numbers(const Operation& operation) {
  return is_any_of(operation.task.name,
                   {"aclnnAbs", "aclnnNeg", "aclnnCat", "aclnnCtcLoss", "aclnnInplaceFillScalar", "aclnnInplaceFillTensor",
                    "aclnnInplaceMaskedFillScalar", "aclnnInplaceMaskedFillTensor", "aclnnForeachNonFiniteCheckAndUnscale"});
}

bool uses_cube(const Operation& operation) {
  for (int i = 0; i < operation.parameter_count; ++i) {
    if (operation.parameters[i].name == std::string_view("cubeMathType")) return true;
  }
  return false;
}

// The addend of a product does not pass through the cube unit.
bool is_addend(const Operation& operation, const ParameterInfo& parameter) {
  const std::string_view name = parameter.name;
  return name == "bias" || (name == "self" && operation.scalar_count > 0);
}

bool imitates_chip() { return (__atomic_load_n(driver()->limits, __ATOMIC_RELAXED) & SOFTNPU_LIMITS_CHIP) != 0; }

// The address of a tensor of the call in device memory, in the address space of kernels; null if no tensor is there.
const void* memory_of(const Executor& executor) {
  const SoftnpuDriver& runtime = *driver();
  for (const TensorView& view : executor.views) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(view.data) - uintptr_t(runtime.alias_offset);
    if (view.data != nullptr && address >= runtime.device_begin && address < runtime.device_end) return view.data;
  }
  return nullptr;
}

bool is_finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

bool is_finite(const at::Scalar& scalar) {
  if (scalar.isComplex()) return std::isfinite(scalar.toComplexDouble().real()) && std::isfinite(scalar.toComplexDouble().imag());
  return !scalar.isFloatingPoint() || std::isfinite(scalar.toDouble());
}

// One run of a kernel on a device where numbers of `types` saturate.
class SaturatedRun {
 public:
  SaturatedRun(const Executor& executor, at::Tensor* tensors, Types types, bool rounds_operands)
      : executor_(executor),
        operation_(*executor.operation),
        types_(types),
        cube_(rounds_operands && uses_cube(operation_)),
        arguments_(tensors, tensors + executor.views.size()),
        finite_arguments_(std::ranges::all_of(executor.scalars, [](const at::Scalar& scalar) { return is_finite(scalar); })) {}

  // Returns whether the arguments were finite and a result was not: an overflow.
  bool operator()() {
    if (keeps_numbers(operation_) || !(writes_saturating_type() || cube_)) {
      run();
      return false;
    }
    if (converts(operation_)) return run_conversion();
    for_each_view(executor_, [&](const ParameterInfo& parameter, uint32_t number) { limit_argument(parameter, number); });
    run();
    bool overflowed = rounding_overflowed_;
    for (at::Tensor& result : results_) {
      if (is_finite(result)) continue;
      result.nan_to_num_();
      overflowed |= finite_arguments_;
    }
    return overflowed;
  }

 private:
  void run() { run_operation(executor_, arguments_.data()); }

  bool writes_saturating_type() const {
    bool writes = false;
    for_each_view(executor_, [&](const ParameterInfo& parameter, uint32_t number) {
      writes |= parameter.written && contains(types_, executor_.views[number].dtype);
    });
    return writes;
  }

  void limit_argument(const ParameterInfo& parameter, uint32_t number) {
    at::Tensor& tensor = arguments_[number];
    const aclDataType dtype = executor_.views[number].dtype;
    if (contains(types_, dtype)) {
      if (parameter.written) results_.push_back(tensor);
      if (parameter.is_read() && !is_finite(tensor)) {
        finite_arguments_ = false;
        tensor = parameter.written ? tensor.nan_to_num_() : at::nan_to_num(tensor);
      }
    }
    if (dtype == ACL_FLOAT && cube_ && !parameter.written && !is_addend(operation_, parameter)) {
      const at::Tensor rounded = tensor.to(at::kHalf);
      rounding_overflowed_ |= !is_finite(rounded) && is_finite(tensor);
      tensor = at::nan_to_num(rounded).to(at::kFloat);
    }
  }

  // A copy within one type changes nothing. In a conversion infinity becomes the largest number of the new type, without an
  // overflow.
  bool run_conversion() {
    size_t from = 0;
    size_t to = 0;
    for_each_view(executor_, [&](const ParameterInfo& parameter, uint32_t number) { (parameter.written ? to : from) = number; });
    run();
    if (executor_.views[from].dtype == executor_.views[to].dtype) return false;
    at::Tensor& result = arguments_[to];
    const at::Tensor finite = at::isfinite(result);
    if (finite.all().item<bool>()) return false;
    const bool overflowed = at::isfinite(arguments_[from]).logical_and(finite.logical_not()).any().item<bool>();
    result.nan_to_num_();
    return overflowed;
  }

  const Executor& executor_;
  const Operation& operation_;
  const Types types_;
  const bool cube_;
  std::vector<at::Tensor> arguments_;
  std::vector<at::Tensor> results_;
  bool finite_arguments_;
  bool rounding_overflowed_ = false;
};

}  // namespace

Status check_limits(const Executor& executor) {
  if (!imitates_chip() || moves(*executor.operation)) return {};
  for (const TensorView& view : executor.views) {
    if ((view.dtype != ACL_DOUBLE && view.dtype != ACL_COMPLEX128) || view.numel <= 1) continue;
    return {ACLNN_ERR_PARAM_INVALID, text("the chip does not compute in ", name_of(view.dtype),
                                          ": SOFTNPU_CHIP_LIMITS=1 imitates its limits. Use float32, or unset the variable")};
  }
  return {};
}

void run_within_limits(const Executor& executor, at::Tensor* tensors) {
  const bool chip = imitates_chip();
  const void* memory = memory_of(executor);
  const bool saturated = memory != nullptr && driver()->saturates(memory);
  const Types types = saturated ? kFloating : chip ? kHalf : 0;
  if (types == 0 || memory == nullptr) return run_operation(executor, tensors);
  if (SaturatedRun(executor, tensors, types, chip)()) driver()->raise_overflow(memory);
}

}  // namespace softnpu::ops
