// Resets the statistics of an allocator.
//
//   reset_peaks(stats_);      // torch.npu.reset_peak_memory_stats()
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace torch_npu {

namespace detail {

template <typename Function>
void for_each_stat(c10::CachingDeviceAllocator::DeviceStats& stats, Function&& function) {
  for (auto* array : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
                      &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (c10::CachingAllocator::Stat& stat : *array) function(stat);
  }
  function(stats.oversize_allocations);
  function(stats.oversize_segments);
}

}  // namespace detail

inline void reset_sums(c10::CachingDeviceAllocator::DeviceStats& stats) {
  detail::for_each_stat(stats, [](auto& stat) { stat.reset_accumulated(); });
  stats.num_alloc_retries = 0;
  stats.num_ooms = 0;
  stats.num_sync_all_streams = 0;
  stats.num_device_alloc = 0;
  stats.num_device_free = 0;
}

inline void reset_peaks(c10::CachingDeviceAllocator::DeviceStats& stats) {
  detail::for_each_stat(stats, [](auto& stat) { stat.reset_peak(); });
}

}  // namespace torch_npu
