#include "bindings/bind.h"
#include "core/allocator.h"
#include "core/host_allocator.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

py::dict show(const Stat& stat) {
  py::dict dict;
  dict["current"] = stat.current;
  dict["peak"] = stat.peak;
  dict["allocated"] = stat.allocated;
  dict["freed"] = stat.freed;
  return dict;
}

py::dict show(const StatArray& stats) {
  py::dict dict;
  dict["all"] = show(stats[0]);
  dict["small_pool"] = show(stats[1]);
  dict["large_pool"] = show(stats[2]);
  return dict;
}

// Nested as torch.cuda.memory_stats_as_nested_dict gives it.
py::dict memory_stats(int64_t device) {
  const auto stats = getNPUAllocator()->getDeviceStats(checked_device(device));
  py::dict dict;
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["max_split_size"] = stats.max_split_size;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["allocation"] = show(stats.allocation);
  dict["segment"] = show(stats.segment);
  dict["active"] = show(stats.active);
  dict["inactive_split"] = show(stats.inactive_split);
  dict["allocated_bytes"] = show(stats.allocated_bytes);
  dict["reserved_bytes"] = show(stats.reserved_bytes);
  dict["active_bytes"] = show(stats.active_bytes);
  dict["inactive_split_bytes"] = show(stats.inactive_split_bytes);
  dict["requested_bytes"] = show(stats.requested_bytes);
  dict["oversize_allocations"] = show(stats.oversize_allocations);
  dict["oversize_segments"] = show(stats.oversize_segments);
  return dict;
}

}  // namespace

void bind_memory(py::module_& module) {
  module.def("_npu_memory_stats", memory_stats);
  module.def(
      "_npu_empty_cache", [] { getNPUAllocator()->emptyCache(); }, ReleaseGil());
  module.def("_npu_reset_peak_memory_stats", [](int64_t device) { getNPUAllocator()->resetPeakStats(checked_device(device)); });
  module.def("_npu_reset_accumulated_memory_stats",
             [](int64_t device) { getNPUAllocator()->resetAccumulatedStats(checked_device(device)); });
  module.def("_npu_mem_get_info", [](int64_t device) { return device_memory(checked_device(device)); });
  module.def("_npu_set_memory_fraction",
             [](double fraction, int64_t device) { set_memory_fraction(fraction, checked_device(device)); });
  module.def("_npu_get_memory_fraction", [](int64_t device) { return memory_fraction(checked_device(device)); });
  module.def(
      "_npu_host_empty_cache", [] { getNPUHostAllocator()->empty_cache(); }, ReleaseGil());
}

}  // namespace torch_npu::bindings
