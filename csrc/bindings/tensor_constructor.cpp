#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "bindings/bind.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

newfunc original = nullptr;

// Null: torch's own constructor. Never destroyed, because it may outlive the interpreter.
py::object& constructor() {
  static auto* const function = new py::object();
  return *function;
}

bool is_of_tensor(PyObject* args) { return PyTuple_GET_SIZE(args) == 1 && THPVariable_Check(PyTuple_GET_ITEM(args, 0)); }

// A class that is derived while this function is installed keeps it.
PyObject* construct_tensor(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  HANDLE_TH_ERRORS
  const bool is_ours = constructor() && reinterpret_cast<PyObject*>(type) == THPVariableClass && !is_of_tensor(args);
  return is_ours ? PyObject_Call(constructor().ptr(), args, kwargs) : original(type, args, kwargs);
  END_HANDLE_TH_ERRORS
}

void set_tensor_constructor(py::object function) {
  auto* const type = reinterpret_cast<PyTypeObject*>(THPVariableClass);
  if (original == nullptr) original = type->tp_new;
  constructor() = function.is_none() ? py::object() : std::move(function);
  type->tp_new = constructor() ? construct_tensor : original;
}

}  // namespace

void bind_tensor_constructor(py::module_& module) {
  module.def("_set_tensor_constructor", set_tensor_constructor, py::arg("function").none(true));
}

}  // namespace torch_npu::bindings
