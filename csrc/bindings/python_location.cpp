#include "bindings/bind.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

template <typename Object>
py::object owned(Object* object) {
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(object));
}

PyFrameObject* frame_of(const py::object& object) { return reinterpret_cast<PyFrameObject*>(object.ptr()); }

struct Line {
  std::string file;
  std::string text;
};

Line line_of(const py::object& frame) {
  const py::object code = owned(PyFrame_GetCode(frame_of(frame)));
  std::string file = py::str(code.attr("co_filename"));
  std::string text =
      c10::str(file, ":", PyFrame_GetLineNumber(frame_of(frame)), " in ", std::string(py::str(code.attr("co_name"))));
  return {std::move(file), std::move(text)};
}

bool is_of_torch(const std::string& file) {
  return file.find("/torch/") != std::string::npos || file.find("/torch_npu/") != std::string::npos;
}

}  // namespace

// The innermost line outside torch, which is the user's own, followed by the innermost line if that is another one.
std::string python_location() {
  if (!interpreter_lives()) return {};  // the interpreter unwinds a thread that asks for its lock while it ends
  const py::gil_scoped_acquire lock;
  py::object frame = owned(PyThreadState_GetFrame(PyThreadState_Get()));
  if (!frame) return {};
  const Line innermost = line_of(frame);
  for (; frame; frame = owned(PyFrame_GetBack(frame_of(frame)))) {
    const Line line = line_of(frame);
    if (is_of_torch(line.file)) continue;
    return line.text == innermost.text ? line.text : c10::str(line.text, ", by way of ", innermost.text);
  }
  return innermost.text;
}

}  // namespace torch_npu::bindings
