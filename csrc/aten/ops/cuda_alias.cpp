#include "aten/ops/cuda_alias.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/to_native.h>

#include <array>

#include "acl/visible_devices.h"
#include "aten/machinery/kernel_override.h"
#include "core/guard.h"
#include "core/memory/out_of_memory.h"

namespace torch_npu {
namespace {

using c10::DispatchKey;

constexpr DispatchKey kCudaKeys[] = {DispatchKey::CUDA, DispatchKey::SparseCUDA, DispatchKey::SparseCsrCUDA,
                                     DispatchKey::QuantizedCUDA};

// Devices of CUDA by index, as torch asks for them where a call names "cuda" without one, and sets them.
struct CudaGuardImpl final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device exchangeDevice(c10::Device device) const override { return cuda(exchange_device(device.index())); }
  c10::Device getDevice() const override { return cuda(current_device()); }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { NPUGuardImpl().uncheckedSetDevice(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

 private:
  static c10::Device cuda(c10::DeviceIndex index) { return {c10::DeviceType::CUDA, index}; }
};

std::atomic<const c10::impl::DeviceGuardImplInterface*>& registered_guard() {
  return c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)];
}

void call_for_npu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  bool found = false;
  for (size_t index = stack->size() - op.schema().arguments().size(); index < stack->size(); ++index) {
    c10::IValue& value = (*stack)[index];
    if (!value.isDevice() || !value.toDevice().is_cuda()) continue;
    value = without_cuda(value.toDevice());
    found = true;
  }
  TORCH_CHECK(found, op.schema().name(), " got a tensor of a CUDA device, but transfer_to_npu has made cuda mean npu; ",
              "move the tensor to the CPU before the import, or call transfer_to_npu.undo() first");
  op.callBoxed(stack);
}

// A tensor that is there already is not copied.
at::Tensor to_layout(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                     std::optional<at::Device> device, std::optional<bool> pin_memory, bool non_blocking, bool copy,
                     std::optional<at::MemoryFormat> format) {
  if (device) device = without_cuda(*device);
  return at::native::to(self, dtype, layout, device, pin_memory, non_blocking, copy, format);
}

at::Tensor to_device(const at::Tensor& self, at::Device device, at::ScalarType dtype, bool non_blocking, bool copy,
                     std::optional<at::MemoryFormat> format) {
  return at::native::to(self, without_cuda(device), dtype, non_blocking, copy, format);
}

// Those that choose their backend by the device that they are asked for.
bool is_factory(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(DispatchKey::BackendSelect)) return false;
  const std::string& name = op.operator_name().name;
  return name.starts_with("aten::") && name != "aten::to" && name != "aten::_to_copy";
}

// What TorchScript does by itself, without the dispatcher, as it is for a program that knows CUDA.
struct ScriptOperator {
  c10::OperatorName name;
  void (*run)(torch::jit::Stack&);
};

const std::array<ScriptOperator, 2>& script_operators() {
  using torch::jit::pop;
  using torch::jit::push;
  static const std::array<ScriptOperator, 2> operators{{
      {{"aten::device", ""}, [](auto& stack) { push(stack, without_cuda(c10::Device(pop(stack).toStringRef()))); }},
      {{"prim::type", ""},
       [](auto& stack) {
         const c10::Device device = pop(stack).toDevice();
         push(stack, device.is_privateuseone() ? "cuda" : c10::DeviceTypeName(device.type(), /*lower_case=*/true));
       }},
  }};
  return operators;
}

// Graphs point to the operators that they were compiled with: these stay.
std::shared_ptr<torch::jit::Operator> exchange(const c10::OperatorName& name, const torch::jit::Operator& replacement) {
  static auto* const exchanged = new std::vector<std::shared_ptr<torch::jit::Operator>>();
  auto old = torch::jit::findOperatorFor(name);
  exchanged->push_back(old);
  torch::jit::deregisterOperator(old->schema());
  torch::jit::registerOperator(torch::jit::Operator(replacement));
  return old;
}

torch::jit::Operator with_schema_of(const torch::jit::Operator& op, void (*run)(torch::jit::Stack&)) {
  const c10::FunctionSchema& schema = op.schema();
  return {schema.name(), schema.overload_name(), schema.arguments(), schema.returns(), run, schema.aliasAnalysis()};
}

}  // namespace

std::optional<std::string> name_without_cuda(std::string_view name) {
  constexpr std::string_view kCuda = "cuda";
  if (name != kCuda && !name.starts_with("cuda:")) return std::nullopt;
  return "npu" + std::string(name.substr(kCuda.size()));
}

CudaAlias::CudaAlias() : guard_of_cuda_(registered_guard().load()) {
  acl::follow_visible_devices_of_cuda(true);
  name_cuda_when_out_of_memory(true);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !is_factory(*op)) continue;
    for (const DispatchKey key : kCudaKeys) {
      kernels_.push_back(override_kernel(c10::toString(name), key, torch::CppFunction::makeFromBoxedFunction<&call_for_npu>()));
    }
  }
  for (const DispatchKey key : {DispatchKey::PrivateUse1, DispatchKey::AutogradPrivateUse1}) {
    kernels_.push_back(override_kernel("aten::to.dtype_layout", key, torch::CppFunction(TORCH_FN(to_layout))));
    kernels_.push_back(override_kernel("aten::to.device", key, torch::CppFunction(TORCH_FN(to_device))));
  }
  for (const auto& [name, run] : script_operators()) {
    if (const auto op = torch::jit::findOperatorFor(name)) {
      script_operators_.push_back(exchange(name, with_schema_of(*op, run)));
    }
  }
  static const auto* const guard = new CudaGuardImpl();
  registered_guard().store(guard);
}

CudaAlias::~CudaAlias() {
  acl::follow_visible_devices_of_cuda(false);
  name_cuda_when_out_of_memory(false);
  registered_guard().store(guard_of_cuda_);
  for (const auto& op : script_operators_) exchange(op->schema().operator_name(), *op);
}

}  // namespace torch_npu
