#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "aten/machinery/override.h"
#include "bindings/bind.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

py::object borrowed(const void* object) {
  return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(const_cast<void*>(object)));
}

// On the stack, dtypes and their like are numbers.
py::object to_python(const c10::IValue& value, c10::TypePtr type) {
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (!value.isInt()) return torch::jit::toPyObject(value);
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return borrowed(torch::getTHPDtype(static_cast<at::ScalarType>(value.toInt())));
    case c10::TypeKind::LayoutType:
      return borrowed(torch::getTHPLayout(static_cast<at::Layout>(value.toInt())));
    case c10::TypeKind::MemoryFormatType:
      return borrowed(torch::utils::getTHPMemoryFormat(static_cast<at::MemoryFormat>(value.toInt())));
    default:
      return torch::jit::toPyObject(value);
  }
}

// Positional arguments, and by name those that may only be given so and are.
std::pair<py::tuple, py::dict> arguments_of(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  py::list positional;
  py::dict by_name;
  const size_t first = stack.size() - schema.arguments().size();
  for (size_t index = 0; index < schema.arguments().size(); ++index) {
    const c10::Argument& argument = schema.arguments()[index];
    const c10::IValue& value = stack[first + index];
    const py::object item = to_python(value, argument.real_type());
    if (!argument.kwarg_only()) {
      positional.append(item);
    } else if (!value.isNone()) {
      by_name[argument.name().c_str()] = item;
    }
  }
  return {py::tuple(positional), std::move(by_name)};
}

// The same memory as another tensor: one that Python has seen cannot become a torch.nn.Parameter any more.
at::Tensor alias_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), false));
}

c10::IValue alias_of(const c10::IValue& value) {
  if (value.isTensor()) return alias_of(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(alias_of(tensor));
  return list;
}

py::object results_of(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  torch::jit::Stack results(stack.end() - static_cast<int64_t>(schema.returns().size()), stack.end());
  for (c10::IValue& result : results) result = alias_of(result);
  return torch::jit::createPyObjectForStack(std::move(results));
}

// What Python raises goes on as torch's own kind of exception, which keeps type and traceback in the autograd engine too.
template <typename Action>
auto in_python(Action&& action) {
  const py::gil_scoped_acquire lock;
  try {
    return action();
  } catch (py::error_already_set& error) {
    error.restore();
    python_error raised;
    raised.persist();
    throw raised;
  }
}

// The kernel of an operator between two calls of Python. An owned function is given up, not freed, where Python is gone.
class Observed : public c10::OperatorKernel {
 public:
  Observed(const c10::SafeKernelFunction& kernel, py::function observer) : kernel_(kernel), observer_(observer.release().ptr()) {}
  ~Observed() override {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire lock;
    Py_DECREF(observer_);
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    PyObject* const finish = in_python([&] {
      const auto [positional, by_name] = arguments_of(op.schema(), *stack);
      return py::reinterpret_borrow<py::function>(observer_)(positional, by_name).release().ptr();
    });
    try {
      kernel_.callBoxed(op, keys, stack);
    } catch (...) {
      in_python([&] { Py_DECREF(finish); });
      throw;
    }
    in_python([&] {
      const auto callable = py::reinterpret_steal<py::object>(finish);
      if (!callable.is_none()) callable(results_of(op.schema(), *stack));
    });
  }

 private:
  const c10::SafeKernelFunction kernel_;
  PyObject* const observer_;
};

}  // namespace

std::unique_ptr<torch::Library> observe(const std::string& op, py::function observer) {
  const size_t dot = op.find('.');
  const auto found = c10::Dispatcher::singleton().findSchemaOrThrow(op.substr(0, dot).c_str(),
                                                                    dot == std::string::npos ? "" : op.substr(dot + 1).c_str());
  auto kernel =
      std::make_unique<Observed>(found.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1), std::move(observer));
  return override_kernel(op, c10::DispatchKey::PrivateUse1, torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
}

}  // namespace torch_npu::bindings
