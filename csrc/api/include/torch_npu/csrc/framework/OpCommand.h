// Runs one operator on the current stream.
//
//   at_npu::native::OpCommand().Name("aclnnFoo").SetCustomHandler([&] { return launch_foo(stream); }).Run();
//   at_npu::native::OpCommand().Name("Add").Input(a).Input(b).Output(out).Run();
//
// With a handler, Run() calls it on this thread and throws unless it returns 0. Without a handler, Name() is a graph operator of
// CANN. Graph operators are not compiled: the names that docs/extending.md lists run as aclnn functions, which require outputs of
// the right shape; any other name throws c10::NotImplementedError. A command is for one Run(). Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <acl/acl_base.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace ge {
class Operator;
using OperatorPtr = std::shared_ptr<Operator>;
}  // namespace ge

namespace at_npu::native {

using std::string;

constexpr int N = 32;

using PROC_FUNC = std::function<int()>;
using DyNumAndIndex = std::vector<std::pair<uint32_t, uint32_t>>;
using DynamicInputRegFunc = std::function<ge::OperatorPtr(DyNumAndIndex, string)>;

// No effect, because no operator is compiled.
enum CompileType { MEMORY_HOST_COMPILE_DEPENDENT = 1, MEMORY_HOST_COMPILE_INDEPENDENT = 2 };

struct UnifiedResult {
  std::optional<at::ScalarType> common_type;
  std::optional<c10::IntArrayRef> common_shape;
  bool result_type_defined = false;
};

// Names of inputs and outputs (`descName`), formats, `realData`, `realDtype` and `realType` are for the compiler and have no
// effect.
class TORCH_NPU_API OpCommand {
 public:
  OpCommand();
  ~OpCommand();
  OpCommand(const OpCommand&) = delete;
  OpCommand& operator=(const OpCommand&) = delete;

  OpCommand& Name(const string& name);
  OpCommand& SetCustomHandler(PROC_FUNC func);
  // No effect: it is for graphs.
  OpCommand& DynamicInputReg(DynamicInputRegFunc func, DyNumAndIndex num_and_index);
  // Later inputs are cast to `common_type`, and so is the output unless its type is fixed.
  OpCommand& Expect(UnifiedResult unified_result);

  // A missing input.
  OpCommand& Input();
  OpCommand& Input(const at::Tensor& input, const string& descName = "",
                   const std::optional<aclFormat>& sensitive_format = std::nullopt, const string& realData = "");
  OpCommand& InputWithoutContiguous(const at::Tensor& input, const string& descName = "", const string& realData = "");
  OpCommand& Inputs(const at::TensorList& inputs);

  // Values on the host.
  template <typename T>
  OpCommand& Input(const c10::ArrayRef<T>& dimListRef, at::IntArrayRef realShape, at::ScalarType toType,
                   CompileType /*compileType*/ = MEMORY_HOST_COMPILE_DEPENDENT, const string& /*realDtype*/ = "",
                   const string& /*descName*/ = "") {
    return host_input(dimListRef.data(), c10::CppTypeToScalarType<T>::value, realShape, toType);
  }
  OpCommand& Input(const c10::IntArrayRef& dimListRef, at::ScalarType toType = at::kLong,
                   CompileType compileType = MEMORY_HOST_COMPILE_DEPENDENT, const string& realDtype = "",
                   const string& descName = "");
  OpCommand& Input(const c10::ArrayRef<double>& dimListRef, at::IntArrayRef realShape, at::ScalarType toType = at::kDouble,
                   CompileType compileType = MEMORY_HOST_COMPILE_DEPENDENT, const string& realDtype = "");
  OpCommand& Input(const c10::Scalar& input, const at::ScalarType type,
                   CompileType compileType = MEMORY_HOST_COMPILE_INDEPENDENT);
  OpCommand& InputScalarToNPUTensor(const c10::Scalar& input, const at::ScalarType type);

  OpCommand& Output(at::Tensor& output, const string& descName = "",
                    const std::optional<aclFormat>& sensitive_format = std::nullopt, const string& realType = "");

  // Numbers, enums, strings, and lists of numbers.
  template <typename dataType>
  OpCommand& Attr(const string& name, dataType value) {
    return set_attribute(name, to_value(value));
  }
  template <typename dataType>
  OpCommand& Attr(const string& name, dataType value, bool cond) {
    return cond ? Attr(name, std::move(value)) : *this;
  }

  void Run();

  // Run() waits for the operator.
  OpCommand& Sync(c10::SmallVector<int64_t, N>& sync_index);
  OpCommand& Sync();

 private:
  template <typename Value>
  static c10::IValue to_value(const Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      return value;
    } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
      return static_cast<int64_t>(value);
    } else if constexpr (std::is_floating_point_v<Value>) {
      return static_cast<double>(value);
    } else if constexpr (std::is_constructible_v<string, const Value&>) {
      return string(value);
    } else if constexpr (std::is_same_v<Value, c10::Scalar>) {
      return value;
    } else if constexpr (std::is_floating_point_v<std::decay_t<decltype(*value.begin())>>) {
      return std::vector<double>(value.begin(), value.end());
    } else {
      return std::vector<int64_t>(value.begin(), value.end());
    }
  }

  OpCommand& host_input(const void* data, at::ScalarType type, at::IntArrayRef shape, at::ScalarType to);
  OpCommand& set_attribute(const string& name, c10::IValue value);
  at::Tensor in_common_type(const at::Tensor& tensor) const;

  string name_;
  PROC_FUNC handler_;
  UnifiedResult expected_;
  c10::SmallVector<at::Tensor, 4> inputs_;
  c10::SmallVector<at::Tensor, 2> outputs_;
  std::map<string, c10::IValue> attributes_;
  bool sync_ = false;
};

}  // namespace at_npu::native
