#include <pybind11/chrono.h>

#include "acl/library.h"
#include "bindings/bind.h"
#include "distributed/flight_recorder.h"
#include "torch_npu/csrc/distributed/ProcessGroupHCCL.hpp"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;
using c10d_npu::ProcessGroupHCCL;
using GroupOptions = ProcessGroupHCCL::Options;
using Store = c10::intrusive_ptr<c10d::Store>;
using Milliseconds = std::chrono::milliseconds;

c10::intrusive_ptr<ProcessGroupHCCL> with_timeout(const Store& store, int rank, int size, Milliseconds timeout) {
  auto options = GroupOptions::create();
  options->timeout = timeout;
  return c10::make_intrusive<ProcessGroupHCCL>(store, rank, size, std::move(options));
}

c10::intrusive_ptr<GroupOptions> copy_of(const GroupOptions& options) { return c10::make_intrusive<GroupOptions>(options); }

template <typename GroupClass>
void bind_options(GroupClass& group) {
  py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(group, "Options")
      .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &GroupOptions::is_high_priority_stream)
      .def_readwrite("hccl_config", &GroupOptions::hccl_config)
      .def_readwrite("_timeout", &GroupOptions::timeout)
      .def_readwrite("global_ranks_in_group", &GroupOptions::global_ranks_in_group)
      .def_readwrite("group_name", &GroupOptions::group_name)
      .def_readwrite("group_id", &GroupOptions::group_name)
      .def("__copy__", &copy_of)
      .def("__deepcopy__", [](const GroupOptions& options, const py::dict&) { return copy_of(options); });
}

}  // namespace

void bind_process_group(py::module_& package) {
  py::module_ module = package.def_submodule("_distributed_c10d", "Process groups of the backend hccl.");
  // The classes that torch's own module has registered are the bases.
  py::module_::import("torch._C._distributed_c10d");
  py::class_<ProcessGroupHCCL, c10d::Backend, c10::intrusive_ptr<ProcessGroupHCCL>> group(module, "ProcessGroupHCCL");
  bind_options(group);
  group
      .def(py::init<const Store&, int, int, c10::intrusive_ptr<GroupOptions>>(), ReleaseGil(), py::arg("store"), py::arg("rank"),
           py::arg("size"), py::arg("options"))
      .def(py::init(&with_timeout), ReleaseGil(), py::arg("store"), py::arg("rank"), py::arg("size"),
           py::arg("timeout") = Milliseconds(kBackendDefaultTimeout))
      .def(
          "get_hccl_comm_name", [](ProcessGroupHCCL& self, int64_t, bool) { return self.getHcclCommName(); }, ReleaseGil(),
          py::arg("rank") = -1, py::arg("init_comm") = true)
      .def_property_readonly(
          "options",
          [](ProcessGroupHCCL& self) { return c10::static_intrusive_pointer_cast<GroupOptions>(self.getBackendOptions()); })
      .def("comm_split_count", &ProcessGroupHCCL::getCommSplitCounter)
      // Only the members of a new group make its communicator.
      .def(
          "perform_nocolor_split", [](ProcessGroupHCCL&, const py::object&) {}, py::arg("device"))
      .def("_wait_for_pending_works", &ProcessGroupHCCL::waitForPendingWorks, ReleaseGil())
      .def("_drop_coalescing", &ProcessGroupHCCL::dropCoalescing, ReleaseGil())
      .def("_reinit", &ProcessGroupHCCL::reinit, ReleaseGil(), py::arg("rebuild_link"))
      .def(
          "abort_hccl_comm", [](ProcessGroupHCCL& self, const std::string&) { self.abort(); }, ReleaseGil(),
          py::arg("abort_reason") = "")
      .def("batch_isend_irecv", &ProcessGroupHCCL::batch_isend_irecv, ReleaseGil(), py::arg("op_type"), py::arg("tensors"),
           py::arg("remote_rank_list"))
      .def(
          "all_gather_uneven",
          [](ProcessGroupHCCL& self, at::Tensor output, at::Tensor input, const std::vector<int64_t>& splits, bool is_async) {
            c10d::AllgatherOptions opts;
            opts.asyncOp = is_async;
            return self.all_gather_uneven(output, input, splits, opts);
          },
          ReleaseGil())
      .def(
          "reduce_scatter_uneven",
          [](ProcessGroupHCCL& self, at::Tensor output, at::Tensor input, const std::vector<int64_t>& splits,
             const c10d::ReduceOp& op, bool is_async) {
            c10d::ReduceScatterOptions opts;
            opts.reduceOp = op;
            opts.asyncOp = is_async;
            return self.reduce_scatter_uneven(output, input, splits, opts);
          },
          ReleaseGil());
  module.def(
      "_dump_hccl_trace_json", [](bool, bool only_active) { return distributed::FlightRecorder::get().to_json(only_active); },
      ReleaseGil(), py::arg("includeCollectives") = true, py::arg("onlyActive") = false);
  module.def(
      "_reset_hccl_trace", [] { distributed::FlightRecorder::get().clear(); }, ReleaseGil());
  module.def("_has_hccl", &acl::has_collective_library, ReleaseGil());
}

}  // namespace torch_npu::bindings
