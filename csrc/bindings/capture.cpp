#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/jit/python/pybind.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "aten/capture/engine.h"
#include "aten/capture/snapshot.h"
#include "bindings/bind.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;
using capture::CapturedTensor;
using capture::CapturedValue;

py::object python_tensor(const capture::CapturedTensorPtr& tensor) {
  return tensor == nullptr ? py::object(py::none()) : py::cast(tensor);
}

py::object python_value(const CapturedValue& value) {
  if (value.kind == CapturedValue::Kind::kTensor) return python_tensor(value.tensors.front());
  if (value.kind == CapturedValue::Kind::kTensors) {
    py::list list;
    for (const auto& tensor : value.tensors) list.append(python_tensor(tensor));
    return list;
  }
  try {
    return torch::jit::toPyObject(value.other);
  } catch (const std::exception&) {
    PyErr_Clear();
    return py::str(c10::str(value.other));
  }
}

py::list python_values(const std::vector<CapturedValue>& values) {
  py::list list;
  for (const CapturedValue& value : values) {
    list.append(py::make_tuple(value.name, python_value(value), value.type == nullptr ? "" : value.type->str()));
  }
  return list;
}

py::object next_entry() {
  std::unique_ptr<capture::Entry> entry;
  {
    const py::gil_scoped_release unlocked;
    entry = capture::Engine::next();
  }
  if (entry == nullptr) return py::none();
  return py::make_tuple(entry->name, entry->sequence, entry->backward, entry->module, entry->line, python_values(entry->inputs),
                        python_values(entry->outputs));
}

py::object statistics_of(const CapturedTensor& tensor) {
  if (tensor.batch == nullptr) return py::none();
  std::array<double, 4> values{};
  {
    const py::gil_scoped_release unlocked;
    values = tensor.batch->values(tensor.row);
  }
  return py::make_tuple(values[0], values[1], values[2], values[3]);
}

// Raises a KeyboardInterrupt again when Python continues. Here it would count as a call that could not be recorded.
template <class Call>
void keep_interrupt(const Call& call) {
  try {
    call();
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_KeyboardInterrupt)) throw;
    PyErr_SetInterrupt();
  }
}

int64_t call_before(const py::object& function, const capture::Arguments& call) {
  const py::gil_scoped_acquire lock;
  py::dict values;
  for (size_t i = 0; i < call.values.size(); ++i) values[py::str(call.names[i])] = torch::jit::toPyObject(call.values[i]);
  int64_t sequence = 0;
  keep_interrupt([&] { sequence = function(call.name, call.backward, values).cast<int64_t>(); });
  return sequence;
}

void start_capture(const py::dict& given, const py::object& before, const py::object& after) {
  capture::Options options;
  options.statistics = given["statistics"].cast<bool>();
  options.overflow = given["overflow"].cast<bool>();
  options.forward = given["forward"].cast<bool>();
  options.backward = given["backward"].cast<bool>();
  options.inputs = given["inputs"].cast<bool>();
  options.outputs = given["outputs"].cast<bool>();
  options.places = given["places"].cast<bool>();
  options.operators = given["operators"].cast<std::string>();
  options.modules = given["modules"].cast<std::string>();
  options.first_sequence = given["first_sequence"].cast<int64_t>();
  // The functions leak: a thread may still call them after stop().
  if (!before.is_none()) {
    auto* function = new py::object(before);
    options.before = [function](const capture::Arguments& call) { return call_before(*function, call); };
  }
  if (!after.is_none()) {
    auto* function = new py::object(after);
    options.after = [function] {
      const py::gil_scoped_acquire lock;
      keep_interrupt(*function);
    };
  }
  const py::gil_scoped_release unlocked;
  capture::Engine::start(std::move(options));
}

}  // namespace

void bind_capture(py::module_& module) {
  py::class_<CapturedTensor, std::shared_ptr<CapturedTensor>>(module, "_CapturedTensor")
      .def_property_readonly("data",
                             [](const CapturedTensor& tensor) -> py::object {
                               return tensor.data.defined() ? py::cast(tensor.data) : py::object(py::none());
                             })
      .def_readonly("shape", &CapturedTensor::sizes)
      .def_readonly("stride", &CapturedTensor::strides)
      .def_readonly("requires_grad", &CapturedTensor::requires_grad)
      .def_readonly("missing", &CapturedTensor::missing)
      .def_property_readonly(
          "dtype",
          [](const CapturedTensor& tensor) {
            return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(tensor.dtype)));
          })
      .def_property_readonly("device_type", [](const CapturedTensor& t) { return c10::DeviceTypeName(t.device.type(), true); })
      .def_property_readonly("device_code", [](const CapturedTensor& t) { return static_cast<int>(t.device.type()); })
      .def_property_readonly("statistics", statistics_of);
  capture::Engine::set_line_source(python_location);
  module.def("_capture_start", start_capture);
  module.def("_capture_stop", capture::Engine::stop, ReleaseGil());
  module.def("_capture_abandon", capture::Engine::abandon, ReleaseGil());
  module.def("_capture_is_active", capture::Engine::is_active);
  module.def("_capture_next", next_entry);
  module.def("_capture_skipped_in_graphs", capture::Engine::skipped_in_graphs);
  module.def("_capture_queued", capture::Engine::queued);
  module.def("_capture_failed", capture::Engine::failed);
  module.def("_capture_failure", capture::Engine::failure);
  module.def("_capture_forget_after_fork", capture::Engine::forget_after_fork);
  module.def("_capture_set_module", capture::Engine::set_module);
}

}  // namespace torch_npu::bindings
