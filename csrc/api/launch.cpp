#include "aten/machinery/launch.h"

#include <deque>
#include <variant>

#include "torch_npu/extension.h"

namespace torch_npu {

AclnnFunction::AclnnFunction(const char* name) : name_(name) {
  const detail::EntryPoints found = detail::find_function(name);
  plan_ = found.plan;
  run_ = reinterpret_cast<void*>(found.run);
}

void* acl_function(const char* name) { return acl::require_symbol(name); }

namespace detail {

struct AclnnCall::State {
  using Argument = std::variant<TensorArg, OutputArg, OverlappingOutputArg, TensorListArg, OutputListArg, ScalarArg, IntArrayArg,
                                FloatArrayArg, BoolArrayArg>;

  template <class Kind, class Value>
  auto add(Value&& value) {
    return std::get<Kind>(arguments.emplace_back(std::in_place_type<Kind>, std::forward<Value>(value))).get();
  }

  std::string describe() const {
    std::string text;
    for (const Argument& argument : arguments) {
      text += (text.empty() ? "" : ", ") + std::visit([](const auto& kind) { return kind.describe(); }, argument);
    }
    return text;
  }

  const AclnnFunction& function;
  const NPUStream stream = getCurrentNPUStream();
  std::deque<Argument> arguments{};
};

AclnnCall::AclnnCall(const AclnnFunction& function) : state_(new State{function}) {}
AclnnCall::~AclnnCall() = default;

const aclTensor* AclnnCall::make(As<const aclTensor*>, const std::optional<at::Tensor>& tensor) {
  return state_->add<TensorArg>(TensorOrNone(tensor));
}

aclTensor* AclnnCall::make(As<aclTensor*>, const std::optional<at::Tensor>& tensor) {
  return state_->add<OutputArg>(TensorOrNone(tensor));
}

aclTensor* AclnnCall::make_any(const std::optional<at::Tensor>& tensor) {
  const TensorOrNone given(tensor);
  if (given.impl() == nullptr) return nullptr;
  TORCH_CHECK(!is_marked(given.impl()), state_->function.name(), " was given a conjugated or negated view, which memory does ",
              "not show: call resolve_conj() or resolve_neg() first, or use NPU_LAUNCH, which does so for what is read.");
  if (is_on_current_device(given.impl())) return state_->add<OverlappingOutputArg>(given);
  return state_->add<TensorArg>(given);
}

const aclTensorList* AclnnCall::make(As<const aclTensorList*>, at::TensorList tensors) {
  return state_->add<TensorListArg>(at::ITensorListRef(tensors));
}

aclTensorList* AclnnCall::make(As<aclTensorList*>, at::TensorList tensors) {
  return state_->add<OutputListArg>(at::ITensorListRef(tensors));
}

const aclScalar* AclnnCall::make(As<const aclScalar*>, const std::optional<at::Scalar>& scalar) {
  return state_->add<ScalarArg>(scalar);
}

const aclIntArray* AclnnCall::make(As<const aclIntArray*>, at::OptionalIntArrayRef values) {
  return state_->add<IntArrayArg>(values);
}

const aclFloatArray* AclnnCall::make(As<const aclFloatArray*>, std::optional<at::ArrayRef<double>> values) {
  return state_->add<FloatArrayArg>(values);
}

const aclBoolArray* AclnnCall::make(As<const aclBoolArray*>, std::optional<at::ArrayRef<bool>> values) {
  return state_->add<BoolArrayArg>(values);
}

aclDataType AclnnCall::make(As<aclDataType>, at::ScalarType dtype) { return acl_dtype(dtype); }

void AclnnCall::run(aclnnStatus planned, uint64_t workspace_size, aclOpExecutor* executor) {
  const char* name = state_->function.name();
  if (planned != 0) refuse(name, planned, {state_->describe()});
  run_on(state_->stream, name, reinterpret_cast<RunFunction>(state_->function.run()), workspace_size, executor);
  after_launch(state_->stream, name, [this] { return state_->describe(); });
}

}  // namespace detail
}  // namespace torch_npu
