#include "aten/machinery/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/options.h"
#include "core/device/device.h"
#include "core/graph/generator.h"

namespace torch_npu {

namespace {

// ---- statistics ----

struct Counters {
  std::mutex mutex;
  std::map<std::string, int64_t> calls;
  std::map<std::string, bool> warned;
};

Counters& counters() {
  static auto* const instance = new Counters;
  return *instance;
}

std::atomic<bool>& strict_switch() {
  static std::atomic<bool> strict{options().strict_fallback};
  return strict;
}

// Returns true for the first call of `name` that is not forced.
bool count(const std::string& name, bool forced) {
  Counters& known = counters();
  const std::lock_guard lock(known.mutex);
  ++known.calls[name];
  return !forced && !std::exchange(known.warned[name], true);
}

void count_and_warn(const std::string& name, bool forced) {
  if (logs(LogPart::kDispatch, LogLevel::kInfo)) log(LogPart::kDispatch, LogLevel::kInfo, name + " runs on the CPU");
  if (count(name, forced) && options().warnings) {
    TORCH_WARN(name, " is not implemented on npu and runs on CPU, with copies both ways. torch.npu.fallback_stats() counts such ",
               "calls; TORCH_NPU_STRICT_FALLBACK=1 makes them errors.");
  }
}

// ---- one call ----

class FallbackCall {
 public:
  // `host` is the dispatch key of the CPU kernels for the layout of the tensors.
  FallbackCall(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::DispatchKey host = c10::DispatchKey::CPU)
      : op_(op),
        host_(host),
        schema_(op.schema()),
        stack_(stack),
        first_(stack.size() - schema_.arguments().size()),
        arguments_(stack.begin() + static_cast<int64_t>(first_), stack.end()) {}

  // A forced call does not warn, and strict mode allows it.
  void run(bool forced) {
    find_device();
    refuse_if_impossible(forced);
    count_and_warn(schema_.operator_name().name + (schema_.overload_name().empty() ? "" : "." + schema_.overload_name()), forced);
    for (size_t index = 0; index < arguments_.size(); ++index) stack_[first_ + index] = to_cpu(arguments_[index]);
    const std::vector<c10::IValue> on_cpu(stack_.begin() + static_cast<int64_t>(first_), stack_.end());
    op_.redispatchBoxed(c10::DispatchKeySet(host_), &stack_);
    write_back(on_cpu);
    return_results();
  }

 private:
  template <class Visit>
  static void for_each_tensor(const c10::IValue& value, Visit visit) {
    if (value.isTensor()) {
      visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
        if (tensor.has_value()) visit(*tensor);
      }
    }
  }

  // Sets device_ to the npu of the tensors, or of a device argument. Throws if the tensors are on two devices, except for a 0-dim
  // CPU tensor that is only read.
  void find_device() {
    const auto agree = [&](const at::Tensor& tensor) {
      if (!tensor.is_privateuseone()) return;
      if (!device_.has_value()) device_ = tensor.device();
      refuse_unless(*device_ == tensor.device(), tensor.device());
    };
    for (const c10::IValue& argument : arguments_) for_each_tensor(argument, agree);
    for (size_t index = 0; index < arguments_.size(); ++index) {
      const c10::IValue& argument = arguments_[index];
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        if (tensor.defined() && !tensor.is_privateuseone() && device_.has_value()) {
          refuse_unless(tensor.is_cpu() && tensor.dim() == 0 && !is_written(index), tensor.device());
        }
      });
      if (!device_.has_value() && argument.isDevice() && argument.toDevice().type() == kDeviceType) device_ = argument.toDevice();
    }
    if (!device_.has_value()) device_ = npu_device(current_device());
  }

  bool is_written(size_t index) const {
    const c10::AliasInfo* alias = schema_.arguments()[index].alias_info();
    return alias != nullptr && alias->isWrite();
  }

  void refuse_unless(bool fine, c10::Device other) const {
    TORCH_CHECK(fine, "Expected all tensors to be on the same device, but found at least two devices, ", *device_, " and ", other,
                "! (when checking arguments of ", schema_.operator_name(), ")");
  }

  void refuse_if_impossible(bool forced) const {
    const auto& name = schema_.operator_name();
    TORCH_CHECK_NOT_IMPLEMENTED(name.name.find("c10d") == std::string::npos, name,
                                " has no npu implementation, and a collective never ",
                                "falls back to CPU. Use a process group with backend hccl and dense tensors.");
    for (const c10::Argument& result : schema_.returns()) {
      TORCH_CHECK_NOT_IMPLEMENTED(
          result.alias_info() == nullptr || result.alias_info()->isWrite(), "Could not run '", name,
          "' with arguments from the 'NPU' backend. It has no npu implementation, and a view cannot fall ",
          "back to CPU: its result would not share memory.");
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        op_.hasComputedKernelForDispatchKey(host_), "Could not run '", name,
        "' with arguments from the 'NPU' backend. It has neither an npu nor a CPU implementation; use another ",
        "operator, or add a kernel: docs/extending.md.");
    TORCH_CHECK_NOT_IMPLEMENTED(
        forced || !strict_fallback(), "Could not run '", name,
        "' with arguments from the 'NPU' backend. It is not implemented on npu, and strict mode forbids to run ",
        "it on CPU (TORCH_NPU_STRICT_FALLBACK or torch.npu.set_strict_fallback).");
  }

  at::Tensor to_cpu(const at::Tensor& tensor) {
    if (!tensor.is_privateuseone()) return tensor;
    at::Tensor& copy = copies_[tensor.unsafeGetTensorImpl()];  // an argument that is passed twice is copied once
    if (copy.defined()) return copy;
    copy = tensor.to(at::kCPU);
    // A kernel for compressed tensors saves its inputs for the gradient if they require one.
    if (host_ == c10::DispatchKey::SparseCsrCPU && tensor.requires_grad()) copy.requires_grad_();
    return copy;
  }

  c10::IValue to_cpu(const c10::IValue& value) {
    if (value.isTensor()) return to_cpu(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(to_cpu(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
        list.push_back(tensor.has_value() ? std::optional(to_cpu(*tensor)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == kDeviceType) return c10::Device(at::kCPU);
    if (value.isGenerator() && value.toGenerator().defined() && value.toGenerator().device().type() == kDeviceType) {
      const auto [seed, offset] = philox(*at::check_generator<NPUGeneratorImpl>(value.toGenerator()), 4);
      return at::detail::createCPUGenerator(seed + offset);
    }
    return value;
  }

  static void write_back(const at::Tensor& original, const at::Tensor& copy) {
    if (!original.is_privateuseone()) return;
    if (original.layout() == at::kStrided && original.sizes() != copy.sizes()) {
      original.resize_(copy.sizes());
      if (copy.is_non_overlapping_and_dense()) original.as_strided_(copy.sizes(), copy.strides());
    }
    original.copy_(copy);
  }

  void write_back(const std::vector<c10::IValue>& on_cpu) const {
    for (size_t index = 0; index < arguments_.size(); ++index) {
      if (!is_written(index)) continue;
      if (arguments_[index].isTensor()) {
        write_back(arguments_[index].toTensor(), on_cpu[index].toTensor());
      } else if (arguments_[index].isTensorList()) {
        const auto originals = arguments_[index].toTensorVector(), copies = on_cpu[index].toTensorVector();
        for (size_t item = 0; item < originals.size(); ++item) write_back(originals[item], copies[item]);
      }
    }
  }

  at::Tensor to_npu(const at::Tensor& tensor) const { return tensor.defined() && tensor.is_cpu() ? tensor.to(*device_) : tensor; }

  void return_results() {
    const auto& results = schema_.returns();
    const size_t first = stack_.size() - results.size();
    for (size_t index = 0; index < results.size(); ++index) {
      c10::IValue& result = stack_[first + index];
      if (results[index].alias_info() != nullptr) {
        result = original_of(*results[index].alias_info());
      } else if (result.isTensor()) {
        result = to_npu(result.toTensor());
      } else if (result.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : result.toTensorVector()) list.push_back(to_npu(tensor));
        result = list;
      }
    }
  }

  const c10::IValue& original_of(const c10::AliasInfo& written) const {
    for (size_t index = 0; index < arguments_.size(); ++index) {
      const c10::AliasInfo* alias = schema_.arguments()[index].alias_info();
      if (alias != nullptr && *alias == written) return arguments_[index];
    }
    TORCH_INTERNAL_ASSERT(false, schema_, " returns an argument that it does not have");
  }

  const c10::OperatorHandle& op_;
  const c10::DispatchKey host_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  const size_t first_;
  const std::vector<c10::IValue> arguments_;
  std::optional<c10::Device> device_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> copies_;
};

template <c10::DispatchKey kHost>
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  FallbackCall(op, *stack, kHost).run(/*forced=*/false);
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> fallback_stats() {
  Counters& known = counters();
  const std::lock_guard lock(known.mutex);
  return {known.calls.begin(), known.calls.end()};
}

void reset_fallback_stats() {
  Counters& known = counters();
  const std::lock_guard lock(known.mutex);
  known.calls.clear();
}

void set_strict_fallback(bool strict) { strict_switch() = strict; }

bool strict_fallback() { return strict_switch(); }

void forced_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { FallbackCall(op, *stack).run(/*forced=*/true); }

void compressed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back<c10::DispatchKey::SparseCsrCPU>(op, stack);
}

void nested_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back<c10::DispatchKey::NestedTensorCPU>(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back<c10::DispatchKey::CPU>>());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back<c10::DispatchKey::SparseCPU>>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&compressed_fallback>()); }

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&nested_fallback>()); }

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back<c10::DispatchKey::QuantizedCPU>>());
}

}  // namespace torch_npu
