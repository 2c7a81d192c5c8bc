#include "bindings/bind.h"
#include "core/memory/allocator.h"
#include "core/memory/host_allocator.h"

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

py::dict show(const c10::CachingAllocator::DurationStat& stat) {
  py::dict dict;
  dict["total"] = stat.total;
  dict["max"] = stat.max;
  dict["min"] = stat.min;
  dict["count"] = stat.count;
  dict["avg"] = stat.count == 0 ? 0.0 : static_cast<double>(stat.total) / static_cast<double>(stat.count);
  return dict;
}

py::dict show(const StatArray& stats) {
  py::dict dict;
  dict["all"] = show(stats[0]);
  dict["small_pool"] = show(stats[1]);
  dict["large_pool"] = show(stats[2]);
  return dict;
}

// Older versions of torch lack the member.
template <typename Stats>
int64_t oom_rejections(const Stats& stats) {
  if constexpr (requires { stats.num_oom_rejections; }) return stats.num_oom_rejections;
  return 0;
}

// The layout of torch.cuda.memory_stats_as_nested_dict().
py::dict memory_stats(int64_t device) {
  const auto stats = getNPUAllocator()->getDeviceStats(checked_device(device));
  py::dict dict;
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["max_split_size"] = stats.max_split_size;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["num_oom_rejections"] = oom_rejections(stats);
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

// The layout of torch.cuda.host_memory_stats_as_nested_dict().
py::dict host_memory_stats() {
  const at::HostStats stats = getNPUHostAllocator()->get_stats();
  py::dict dict;
  dict["allocations"] = show(stats.allocations);
  dict["allocated_bytes"] = show(stats.allocated_bytes);
  dict["active_requests"] = show(stats.active_requests);
  dict["active_bytes"] = show(stats.active_bytes);
  dict["host_alloc_time"] = show(stats.host_alloc_time);
  dict["host_free_time"] = show(stats.host_free_time);
  dict["num_host_alloc"] = stats.num_host_alloc;
  dict["num_host_free"] = stats.num_host_free;
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
  module.def("_npu_host_memory_stats", host_memory_stats);
  module.def("_npu_reset_accumulated_host_memory_stats", [] { getNPUHostAllocator()->reset_accumulated_stats(); });
  module.def("_npu_reset_peak_host_memory_stats", [] { getNPUHostAllocator()->reset_peak_stats(); });
  module.def(
      "_npu_caching_allocator_raw_alloc",
      [](size_t bytes, int64_t stream, int64_t device) {
        return reinterpret_cast<uintptr_t>(raw_allocate(bytes, NPUStream(checked_device(device), stream)));
      },
      ReleaseGil());
  module.def("_npu_caching_allocator_raw_delete", [](uintptr_t address) { raw_free(reinterpret_cast<void*>(address)); });
  module.def("_npu_caching_allocator_enable", enable_caching);
  module.def("_npu_set_allocator_settings", change_allocator_settings);
}

}  // namespace torch_npu::bindings
