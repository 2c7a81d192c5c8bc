#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <unordered_map>

#include "aten/machinery/cube_math.h"
#include "core/stream/launch_trace.h"
#include "plugin/calls.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace at_npu::native {
namespace {

namespace call = torch_npu::call;

struct Arguments {
  const string& name;
  at::TensorList inputs;
  at::TensorList outputs;
  const std::map<string, c10::IValue>& attributes;

  template <class Value>
  Value attribute(const string& key, Value standard) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? standard : found->second.to<Value>();
  }
  const at::Tensor& input(size_t index) const { return inputs[index]; }
  const at::Tensor& out() const { return outputs[0]; }
};

struct Operator {
  size_t inputs;
  void (*run)(const Arguments& arguments);
};

template <auto kCall>
void unary(const Arguments& given) {
  kCall(given.input(0), given.out());
}

template <auto kCall>
void binary(const Arguments& given) {
  kCall(given.input(0), given.input(1), given.out());
}

template <auto kCall>
void scaled_binary(const Arguments& given) {
  kCall(given.input(0), given.input(1), 1, given.out());
}

template <auto kCall>
void product(const Arguments& given, const char* first, const char* second) {
  const auto turned = [&](size_t index, const char* attribute) {
    return given.attribute(attribute, false) ? given.input(index).mT() : given.input(index);
  };
  kCall(turned(0, first), turned(1, second), given.out(), torch_npu::cube_math_type());
}

// The table of docs/extending.md.
const std::unordered_map<string, Operator>& operators() {
  static const auto* const table = new std::unordered_map<string, Operator>{
      {"Abs", {1, unary<call::aclnnAbs>}},
      {"Ceil", {1, unary<call::aclnnCeil>}},
      {"Cos", {1, unary<call::aclnnCos>}},
      {"Erf", {1, unary<call::aclnnErf>}},
      {"Exp", {1, unary<call::aclnnExp>}},
      {"Floor", {1, unary<call::aclnnFloor>}},
      {"Log", {1, unary<call::aclnnLog>}},
      {"LogicalNot", {1, unary<call::aclnnLogicalNot>}},
      {"Neg", {1, unary<call::aclnnNeg>}},
      {"Reciprocal", {1, unary<call::aclnnReciprocal>}},
      {"Relu", {1, unary<call::aclnnRelu>}},
      {"Rsqrt", {1, unary<call::aclnnRsqrt>}},
      {"Sigmoid", {1, unary<call::aclnnSigmoid>}},
      {"Sign", {1, unary<call::aclnnSign>}},
      {"Sin", {1, unary<call::aclnnSin>}},
      {"Sqrt", {1, unary<call::aclnnSqrt>}},
      {"Tanh", {1, unary<call::aclnnTanh>}},
      {"Add", {2, scaled_binary<call::aclnnAdd>}},
      {"Sub", {2, scaled_binary<call::aclnnSub>}},
      {"Mul", {2, binary<call::aclnnMul>}},
      {"Div", {2, binary<call::aclnnDiv>}},
      {"RealDiv", {2, binary<call::aclnnDiv>}},
      {"Maximum", {2, binary<call::aclnnMaximum>}},
      {"Minimum", {2, binary<call::aclnnMinimum>}},
      {"Pow", {2, binary<call::aclnnPowTensorTensor>}},
      {"Equal", {2, binary<call::aclnnEqTensor>}},
      {"NotEqual", {2, binary<call::aclnnNeTensor>}},
      {"Less", {2, binary<call::aclnnLtTensor>}},
      {"LessEqual", {2, binary<call::aclnnLeTensor>}},
      {"Greater", {2, binary<call::aclnnGtTensor>}},
      {"GreaterEqual", {2, binary<call::aclnnGeTensor>}},
      {"LogicalAnd", {2, binary<call::aclnnLogicalAnd>}},
      {"LogicalOr", {2, binary<call::aclnnLogicalOr>}},
      {"Adds",
       {1, [](const Arguments& given) { call::aclnnAdds(given.input(0), given.attribute("value", 0.0), 1, given.out()); }}},
      {"Muls", {1, [](const Arguments& given) { call::aclnnMuls(given.input(0), given.attribute("value", 1.0), given.out()); }}},
      {"Cast", {1, [](const Arguments& given) { call::aclnnCast(given.input(0), given.out().scalar_type(), given.out()); }}},
      {"MatMul", {2, [](const Arguments& given) { product<call::aclnnMatmul>(given, "transpose_x1", "transpose_x2"); }}},
      {"BatchMatMul", {2, [](const Arguments& given) { product<call::aclnnBatchMatMul>(given, "adj_x1", "adj_x2"); }}},
  };
  return *table;
}

void run_by_name(const Arguments& given) {
  const auto found = operators().find(given.name);
  TORCH_CHECK_NOT_IMPLEMENTED(found != operators().end(), "OpCommand cannot run the graph operator ", given.name,
                              ": graph operators are not compiled here. Launch its aclnn function instead: NPU_LAUNCH of ",
                              "torch_npu/extension.h, or SetCustomHandler().");
  const size_t wanted = found->second.inputs;
  TORCH_CHECK(given.inputs.size() == wanted && given.outputs.size() == 1, "OpCommand: ", given.name, " has ", wanted,
              wanted == 1 ? " input" : " inputs", " and 1 output, but was given ", given.inputs.size(), " and ",
              given.outputs.size());
  found->second.run(given);
}

void run_handler(const string& name, const PROC_FUNC& handler) {
  const torch_npu::NPUStream stream = torch_npu::getCurrentNPUStream();
  torch_npu::acl::check(handler(), name.c_str());
  torch_npu::after_launch(stream, name.c_str(), [] { return string(); });
}

}  // namespace

OpCommand::OpCommand() = default;
OpCommand::~OpCommand() = default;

OpCommand& OpCommand::Name(const string& name) {
  name_ = name;
  return *this;
}

OpCommand& OpCommand::SetCustomHandler(PROC_FUNC func) {
  handler_ = std::move(func);
  return *this;
}

OpCommand& OpCommand::DynamicInputReg(DynamicInputRegFunc, DyNumAndIndex) { return *this; }

OpCommand& OpCommand::Expect(UnifiedResult unified_result) {
  expected_ = unified_result;
  return *this;
}

at::Tensor OpCommand::in_common_type(const at::Tensor& tensor) const {
  return expected_.common_type.has_value() && tensor.defined() ? tensor.to(*expected_.common_type) : tensor;
}

OpCommand& OpCommand::Input() { return InputWithoutContiguous(at::Tensor()); }

OpCommand& OpCommand::Input(const at::Tensor& input, const string&, const std::optional<aclFormat>&, const string&) {
  return InputWithoutContiguous(input.defined() ? input.contiguous() : input);
}

OpCommand& OpCommand::InputWithoutContiguous(const at::Tensor& input, const string&, const string&) {
  inputs_.push_back(in_common_type(input));
  return *this;
}

OpCommand& OpCommand::Inputs(const at::TensorList& inputs) {
  for (const at::Tensor& input : inputs) Input(input);
  return *this;
}

OpCommand& OpCommand::host_input(const void* data, at::ScalarType type, at::IntArrayRef shape, at::ScalarType to) {
  const at::Tensor borrowed = at::from_blob(const_cast<void*>(data), shape, at::TensorOptions(type));
  inputs_.push_back(borrowed.to(at::Device(torch_npu::kDeviceType, torch_npu::current_device()), to));
  return *this;
}

OpCommand& OpCommand::Input(const c10::IntArrayRef& dimListRef, at::ScalarType toType, CompileType, const string&,
                            const string&) {
  return host_input(dimListRef.data(), at::kLong, {static_cast<int64_t>(dimListRef.size())}, toType);
}

OpCommand& OpCommand::Input(const c10::ArrayRef<double>& dimListRef, at::IntArrayRef realShape, at::ScalarType toType,
                            CompileType, const string&) {
  return host_input(dimListRef.data(), at::kDouble, realShape, toType);
}

OpCommand& OpCommand::Input(const c10::Scalar& input, const at::ScalarType type, CompileType) {
  inputs_.push_back(at::scalar_tensor(input, type));
  return *this;
}

OpCommand& OpCommand::InputScalarToNPUTensor(const c10::Scalar& input, const at::ScalarType type) {
  inputs_.push_back(at::scalar_tensor(input, type).to(at::Device(torch_npu::kDeviceType, torch_npu::current_device())));
  return *this;
}

OpCommand& OpCommand::Output(at::Tensor& output, const string&, const std::optional<aclFormat>&, const string&) {
  if (!expected_.result_type_defined) output = in_common_type(output);
  outputs_.push_back(output);
  return *this;
}

OpCommand& OpCommand::set_attribute(const string& name, c10::IValue value) {
  attributes_.insert_or_assign(name, std::move(value));
  return *this;
}

OpCommand& OpCommand::Sync() {
  sync_ = true;
  return *this;
}

OpCommand& OpCommand::Sync(c10::SmallVector<int64_t, N>& sync_index) { return sync_index.empty() ? *this : Sync(); }

void OpCommand::Run() {
  TORCH_CHECK(!name_.empty(), "OpCommand: Name() comes before Run()");
  if (handler_ != nullptr) {
    run_handler(name_, handler_);
  } else {
    run_by_name({name_, inputs_, outputs_, attributes_});
  }
  if (sync_) torch_npu::getCurrentNPUStream().synchronize();
}

}  // namespace at_npu::native
