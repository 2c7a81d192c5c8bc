#include "aten/ops/cuda_alias.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Stream.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "bindings/bind.h"

// Makes the constructors of torch.device, Generator, Stream and Event take "cuda" as "npu". The slots tp_new of these classes are
// replaced and the classes stay, because isinstance, pickle, TorchScript and Dynamo compare classes by identity.
namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

struct Constructor {
  PyTypeObject* type;
  newfunc original;
};

// Never destroyed: a class that a program derives while the alias is on keeps construct_alias() after the alias has ended.
const std::array<Constructor, 4>& constructors() {
  static const auto* const originals = [] {
    const auto of = [](PyTypeObject* type) { return Constructor{type, type->tp_new}; };
    return new std::array{of(&THPDeviceType), of(reinterpret_cast<PyTypeObject*>(THPGeneratorClass)), of(THPStreamClass),
                          of(THPEventClass)};
  }();
  return *originals;
}

struct State {
  CudaAlias alias;
  py::object type_attribute;
  reprfunc str_of_device;
  py::object name;         // the class of str(device) for an npu
  py::object device_type;  // device.type of an npu
};

// Has a value while the alias is on. Guarded by the interpreter's lock.
std::optional<State>& state() {
  static auto* const state = new std::optional<State>();
  return *state;
}

// A new reference to the argument or, if it names a CUDA device, to the same of an npu.
PyObject* without_cuda(PyObject* argument) {
  if (THPDevice_Check(argument)) return THPDevice_New(torch_npu::without_cuda(reinterpret_cast<THPDevice*>(argument)->device));
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_Check(argument) ? PyUnicode_AsUTF8AndSize(argument, &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return Py_NewRef(argument);
  }
  const auto name = name_without_cuda({text, static_cast<size_t>(size)});
  return name ? PyUnicode_FromStringAndSize(name->data(), static_cast<Py_ssize_t>(name->size())) : Py_NewRef(argument);
}

PyObject* construct_original(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  for (const Constructor& constructor : constructors()) {
    if (PyType_IsSubtype(type, constructor.type)) return constructor.original(type, args, kwargs);
  }
  PyErr_Format(PyExc_TypeError, "%s is made for no device", type->tp_name);
  return nullptr;
}

PyObject* construct_alias(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  HANDLE_TH_ERRORS
  if (!state()) return construct_original(type, args, kwargs);
  const auto positional = py::reinterpret_steal<py::object>(PyTuple_New(PyTuple_GET_SIZE(args)));
  for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(args); ++index) {
    PyTuple_SET_ITEM(positional.ptr(), index, without_cuda(PyTuple_GET_ITEM(args, index)));
  }
  py::object by_name;
  if (kwargs != nullptr) {
    by_name = py::dict();
    for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(kwargs)) {
      by_name[name] = py::reinterpret_steal<py::object>(without_cuda(value.ptr()));
    }
  }
  return construct_original(type, positional.ptr(), by_name.ptr());
  END_HANDLE_TH_ERRORS
}

PyObject* type_of_device(PyObject* self, void*) {
  if (reinterpret_cast<THPDevice*>(self)->device.is_privateuseone()) return Py_NewRef(state()->device_type.ptr());
  return Py_TYPE(state()->type_attribute.ptr())->tp_descr_get(state()->type_attribute.ptr(), self, nullptr);
}

PyObject* str_of_device(PyObject* self) {
  const auto text = py::reinterpret_steal<py::object>(state()->str_of_device(self));
  if (!text || !reinterpret_cast<THPDevice*>(self)->device.is_privateuseone()) return py::object(text).release().ptr();
  return PyObject_CallOneArg(state()->name.ptr(), text.ptr());
}

void set_type_attribute(const py::object& attribute) {
  if (PyDict_SetItemString(THPDeviceType.tp_dict, "type", attribute.ptr()) != 0) throw py::error_already_set();
  PyType_Modified(&THPDeviceType);
}

void begin(py::object name) {
  if (state()) return;
  state().emplace();
  State& now = *state();
  now.device_type = name("npu");
  now.name = std::move(name);
  now.str_of_device = std::exchange(THPDeviceType.tp_str, str_of_device);
  for (const Constructor& constructor : constructors()) constructor.type->tp_new = construct_alias;
  static PyGetSetDef definition = {"type", type_of_device, nullptr, nullptr, nullptr};
  now.type_attribute = py::reinterpret_borrow<py::object>(PyDict_GetItemString(THPDeviceType.tp_dict, "type"));
  set_type_attribute(py::reinterpret_steal<py::object>(PyDescr_NewGetSet(&THPDeviceType, &definition)));
}

void end() {
  if (!state()) return;
  for (const Constructor& constructor : constructors()) constructor.type->tp_new = constructor.original;
  THPDeviceType.tp_str = state()->str_of_device;
  set_type_attribute(state()->type_attribute);
  state().reset();
}

}  // namespace

void bind_cuda_alias(py::module_& module) {
  module.def("_cuda_alias_begin", begin, py::arg("name"));
  module.def("_cuda_alias_end", end);
}

}  // namespace torch_npu::bindings
