#include <torch/csrc/utils/pybind.h>

#include "acl/device_records.h"
#include "acl/msprofiler.h"
#include "bindings/bind.h"
#include "core/stream/stream.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

// The tensors of one side of a task: (shape, data type, format).
py::tuple tensors_of(const std::vector<int64_t>& words, bool written) {
  constexpr int64_t kWritten = int64_t{1} << 40;
  py::list tensors;
  for (size_t at = 0; at < words.size();) {
    const int64_t head = words[at++];
    const auto rank = static_cast<size_t>(head & 0xff);
    if (((head & kWritten) != 0) == written) {
      py::tuple shape(rank);
      for (size_t dim = 0; dim < rank; ++dim) shape[dim] = words[at + dim];
      tensors.append(py::make_tuple(shape, acl::data_type_name(head >> 8 & 0xffff), acl::format_name(head >> 24 & 0xffff)));
    }
    at += rank;
  }
  return py::tuple(tensors);
}

int64_t stream_number(uint32_t stream) { return stream == SOFTNPU_NO_STREAM ? -1 : int64_t{stream}; }

py::tuple to_python(const acl::RecordedTask& task) {
  const SoftnpuTaskRecord& record = task.record;
  return py::make_tuple(record.name, acl::class_name(acl::class_of(record)), record.device, stream_number(record.stream),
                        record.task, record.thread, record.enqueue_ns, record.start_ns, record.end_ns, record.correlation,
                        record.external, record.bytes, acl::direction_name(record.direction), tensors_of(task.tensors, false),
                        tensors_of(task.tensors, true));
}

// The records are copied first and converted later. Creating a Python object can run code that calls the device, and the
// records are locked while they are copied.
py::tuple stop(int64_t session) {
  const acl::DeviceRecords records = [&] {
    const py::gil_scoped_release unlocked;
    return acl::stop_records(session);
  }();
  py::list tasks, calls, marks;
  uint64_t skipped = 0;
  for (const acl::RecordedTask& task : records.tasks) {
    if (task.record.skipped != 0) {
      ++skipped;
    } else {
      tasks.append(to_python(task));
    }
  }
  for (const SoftnpuCallRecord& call : records.calls) {
    calls.append(py::make_tuple(call.name, call.thread, call.start_ns, call.end_ns, call.correlation));
  }
  for (const acl::RecordedMark& mark : records.marks) {
    const auto text = py::reinterpret_steal<py::str>(
        PyUnicode_DecodeUTF8(mark.text.data(), static_cast<Py_ssize_t>(mark.text.size()), "replace"));
    marks.append(
        py::make_tuple(text, mark.record.thread, mark.record.start_ns, mark.record.end_ns, stream_number(mark.record.stream)));
  }
  return py::make_tuple(tasks, calls, marks, records.totals.dropped, records.totals.unfinished + skipped);
}

void range(const std::string& name, uint64_t start_ns, uint64_t end_ns) {
  if (const SoftnpuProfiler* const profiler = acl::softnpu_profiler()) {
    profiler->mark(name.data(), name.size(), start_ns, end_ns, SOFTNPU_NO_STREAM);
  }
}

// torch.npu.profile: folders PROF_* of libmsprofiler. The calls release the GIL, because they wait for a thread of the library.
void bind_prof_folders(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def("_prof_init", acl::open_profile, Unlocked());
  module.def("_prof_set", acl::set_profile, Unlocked());
  module.def("_prof_start", acl::start_profile, Unlocked());
  module.def("_prof_stop", acl::stop_profile, Unlocked());
  module.def("_prof_finalize", acl::close_profile, Unlocked());
  module.def(
      "_prof_mark", [](const std::string& text) { acl::mark_profile(text, getCurrentNPUStream().stream()); }, Unlocked());
  module.def("_prof_make_step", acl::make_step);
  module.def("_prof_destroy_step", acl::destroy_step);
  module.def(
      "_prof_step", [](uintptr_t step, bool begins) { acl::mark_step(step, begins, getCurrentNPUStream().stream()); },
      Unlocked());
}

}  // namespace

void bind_profiler(py::module_& module) {
  bind_prof_folders(module);
  module.def(
      "_profiler_start",
      [](bool host_calls, bool shapes) {
        return acl::start_records(SOFTNPU_RECORD_TASKS | (host_calls ? SOFTNPU_RECORD_CALLS : 0) |
                                  (shapes ? SOFTNPU_RECORD_TENSORS : 0));
      },
      py::arg("host_calls") = true, py::arg("shapes") = true);
  module.def("_profiler_stop", stop);
  module.def("_profiler_range", range);
  module.def("_profiler_mark", [](const std::string& name) {
    if (const SoftnpuProfiler* const profiler = acl::softnpu_profiler()) {
      const uint64_t now = profiler->now();
      range(name, now, now);
    }
  });
}

}  // namespace torch_npu::bindings
