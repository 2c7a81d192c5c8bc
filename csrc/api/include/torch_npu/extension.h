// Calls of the device from operators of an extension.
//
//   #include <aclnnop/aclnn_add.h>
//   #include <torch_npu/extension.h>
//
//   NPU_LAUNCH(aclnnAdd, self, other, at::Scalar(1), out);
//
// launches an aclnn function on the current stream of the current device, and returns when it is queued. Tensors, scalars and
// lists become descriptors of the types in the function's declaration; an undefined tensor or std::nullopt is a missing argument.
// Throws c10::NotImplementedError if the device library has no such function. Throws a c10::Error with the function, its
// arguments and the reason if the device refuses the call. The next synchronising call throws a failure of the queued work. All
// tensors must be on the current device: see NPUGuard.h.
//
//   EXEC_NPU_CMD(aclnnAdd, self, other, alpha, out);
//
// does the same for functions without a declaration. The types of the arguments must match those of the function: integers are
// passed as int64_t, a float is not a double, and any tensor may be written.
//
//   NPU_CHECK_ERROR(NPU_ACL(aclrtMemsetAsync)(address, bytes, 0, bytes, stream));
//
// calls a function of AscendCL in the device library of this process. An extension does not link a device library. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <aclnn/acl_meta.h>
#include <aclnn/aclnn_base.h>
#include <c10/core/Scalar.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "torch_npu/csrc/core/npu/NPUException.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace torch_npu {

// The two entry points of an aclnn function in the device library.
class TORCH_NPU_API AclnnFunction {
 public:
  // `name` is a literal. Throws c10::NotImplementedError if there is no such function.
  explicit AclnnFunction(const char* name);

  const char* name() const { return name_; }
  void* plan() const { return plan_; }
  void* run() const { return run_; }

 private:
  const char* name_;
  void* plan_;
  void* run_;
};

// A function of AscendCL by its name. Throws if the device library has no such function.
TORCH_NPU_API void* acl_function(const char* name);

namespace detail {

template <class Parameter>
using As = std::type_identity<Parameter>;

// One launch. Owns the descriptors of its arguments.
class TORCH_NPU_API AclnnCall {
 public:
  explicit AclnnCall(const AclnnFunction& function);
  ~AclnnCall();
  AclnnCall(const AclnnCall&) = delete;
  AclnnCall& operator=(const AclnnCall&) = delete;

  const aclTensor* make(As<const aclTensor*>, const std::optional<at::Tensor>& tensor);
  aclTensor* make(As<aclTensor*>, const std::optional<at::Tensor>& tensor);
  const aclTensorList* make(As<const aclTensorList*>, at::TensorList tensors);
  aclTensorList* make(As<aclTensorList*>, at::TensorList tensors);
  const aclScalar* make(As<const aclScalar*>, const std::optional<at::Scalar>& scalar);
  const aclIntArray* make(As<const aclIntArray*>, at::OptionalIntArrayRef values);
  const aclFloatArray* make(As<const aclFloatArray*>, std::optional<at::ArrayRef<double>> values);
  const aclBoolArray* make(As<const aclBoolArray*>, std::optional<at::ArrayRef<bool>> values);
  aclDataType make(As<aclDataType>, at::ScalarType dtype);
  char* make(As<char*>, const char* text) { return const_cast<char*>(text); }
  char* make(As<char*>, const std::string& text) { return const_cast<char*>(text.c_str()); }
  template <class Number, class Value>
  std::enable_if_t<std::is_arithmetic_v<Number>, Number> make(As<Number>, const Value& value) {
    return static_cast<Number>(value);
  }

  // For a tensor that may be read or written.
  aclTensor* make_any(const std::optional<at::Tensor>& tensor);

  void run(aclnnStatus planned, uint64_t workspace_size, aclOpExecutor* executor);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// The parameter type for an argument that is not a tensor.
template <class Argument>
auto parameter_of() {
  if constexpr (std::is_same_v<Argument, at::ScalarType>) {
    return As<aclDataType>();
  } else if constexpr (std::is_integral_v<Argument> && !std::is_same_v<Argument, bool>) {
    return As<int64_t>();
  } else if constexpr (std::is_arithmetic_v<Argument>) {
    return As<Argument>();
  } else if constexpr (std::is_convertible_v<Argument, std::string>) {
    return As<char*>();
  } else if constexpr (std::is_convertible_v<Argument, std::optional<at::Scalar>>) {
    return As<const aclScalar*>();
  } else if constexpr (std::is_convertible_v<Argument, at::OptionalIntArrayRef>) {
    return As<const aclIntArray*>();
  } else if constexpr (std::is_convertible_v<Argument, std::optional<at::ArrayRef<bool>>>) {
    return As<const aclBoolArray*>();
  } else if constexpr (std::is_convertible_v<Argument, std::optional<at::ArrayRef<double>>>) {
    return As<const aclFloatArray*>();
  } else {
    static_assert(std::is_convertible_v<Argument, at::TensorList>, "no aclnn function takes an argument of this type");
    return As<const aclTensorList*>();
  }
}

template <class Argument>
auto make_by_type(AclnnCall& call, const Argument& argument) {
  if constexpr (std::is_same_v<Argument, std::nullopt_t> || std::is_same_v<Argument, std::nullptr_t>) {
    return static_cast<void*>(nullptr);
  } else if constexpr (std::is_convertible_v<Argument, std::optional<at::Tensor>>) {
    return call.make_any(argument);
  } else {
    return call.make(parameter_of<Argument>(), argument);
  }
}

template <class... Parameters>
struct Declared;
template <class... Parameters>
struct Declared<aclnnStatus (*)(Parameters...)> {
  // The last two parameters are the size of the workspace and the executor.
  template <class... Arguments>
  static void launch(const AclnnFunction& function, const Arguments&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments) + 2, "the aclnn function takes another number of arguments");
    AclnnCall call(function);
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    const auto plan = reinterpret_cast<aclnnStatus (*)(Parameters...)>(function.plan());
    const auto make = [&call]<class Parameter, class Argument>(As<Parameter> parameter, const Argument& argument) -> Parameter {
      if constexpr (std::is_same_v<Argument, uint64_t*> || std::is_same_v<Argument, aclOpExecutor**>) {
        return argument;
      } else {
        return call.make(parameter, argument);
      }
    };
    const auto in_order = [&](const auto&... all) { return std::tuple<Parameters...>{make(As<Parameters>(), all)...}; };
    const aclnnStatus planned = std::apply(plan, in_order(arguments..., &workspace_size, &executor));
    call.run(planned, workspace_size, executor);
  }
};

}  // namespace detail

template <class... Arguments>
void launch_by_types(const AclnnFunction& function, const Arguments&... arguments) {
  detail::AclnnCall call(function);
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const std::tuple<decltype(detail::make_by_type(call, arguments))..., uint64_t*, aclOpExecutor**> in_order{
      detail::make_by_type(call, arguments)..., &workspace_size, &executor};
  const auto plan = [&function]<class... Parameters>(Parameters... parameters) {
    return reinterpret_cast<aclnnStatus (*)(Parameters...)>(function.plan())(parameters...);
  };
  const aclnnStatus planned = std::apply(plan, in_order);
  call.run(planned, workspace_size, executor);
}

}  // namespace torch_npu

#define NPU_LAUNCH(function, ...)                                                                              \
  do {                                                                                                         \
    static const ::torch_npu::AclnnFunction npu_function(#function);                                           \
    ::torch_npu::detail::Declared<decltype(&::function##GetWorkspaceSize)>::launch(npu_function, __VA_ARGS__); \
  } while (false)

#define EXEC_NPU_CMD(function, ...)                                  \
  do {                                                               \
    static const ::torch_npu::AclnnFunction npu_function(#function); \
    ::torch_npu::launch_by_types(npu_function, __VA_ARGS__);         \
  } while (false)

#define NPU_ACL(function) (reinterpret_cast<decltype(&::function)>(::torch_npu::acl_function(#function)))
