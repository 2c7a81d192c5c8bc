#include "aten/machinery/observe.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "bindings/bind.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

py::object borrowed(const void* object) {
  return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(const_cast<void*>(object)));
}

// A dtype, layout or memory format is a number on the stack; `type` tells which of them it is.
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

// Keyword-only arguments that are None are left out.
std::pair<py::tuple, py::dict> to_python(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
  py::list positional;
  py::dict by_name;
  for (size_t index = 0; index < arguments.size(); ++index) {
    const c10::Argument& argument = schema.arguments()[index];
    const py::object item = to_python(arguments[index], argument.real_type());
    if (!argument.kwarg_only()) {
      positional.append(item);
    } else if (!arguments[index].isNone()) {
      by_name[argument.name().c_str()] = item;
    }
  }
  return {py::tuple(positional), std::move(by_name)};
}

// Calls `action` with the interpreter's lock. A Python exception becomes torch's python_error, which keeps its type and traceback
// in the autograd engine too.
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

// A reference to a Python function that any thread may drop, without the interpreter's lock. It leaks after the interpreter
// ended.
class Callable {
 public:
  explicit Callable(py::object function) : function_(function.release().ptr()) {}
  ~Callable() {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire lock;
    Py_DECREF(function_);
  }
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;

  template <typename... Arguments>
  py::object operator()(Arguments&&... arguments) const {
    return py::reinterpret_borrow<py::object>(function_)(std::forward<Arguments>(arguments)...);
  }

 private:
  PyObject* const function_;
};

class PythonCall final : public ObservedCall {
 public:
  explicit PythonCall(py::object finish) : finish_(std::move(finish)) {}

  void finish(torch::jit::Stack results) override {
    in_python([&] { finish_(torch::jit::createPyObjectForStack(std::move(results))); });
  }

 private:
  const Callable finish_;
};

class PythonObserver final : public OperatorObserver {
 public:
  explicit PythonObserver(py::function observer) : observer_(std::move(observer)) {}

  std::unique_ptr<ObservedCall> begin(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) override {
    return in_python([&]() -> std::unique_ptr<ObservedCall> {
      const auto [positional, by_name] = to_python(schema, arguments);
      py::object finish = observer_(positional, by_name);
      return finish.is_none() ? nullptr : std::make_unique<PythonCall>(std::move(finish));
    });
  }

 private:
  const Callable observer_;
};

}  // namespace

std::unique_ptr<torch::Library> observe_in_python(const std::string& op, py::function observer) {
  return observe(op, std::make_unique<PythonObserver>(std::move(observer)));
}

}  // namespace torch_npu::bindings
