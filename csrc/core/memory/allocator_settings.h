// The settings of the allocators, from PYTORCH_NPU_ALLOC_CONF or PYTORCH_ALLOC_CONF and from set_allocator_settings().
//
//   set_allocator_settings("max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]");
//   if (CacheSettings::read().max_split ...
//
// The whole text is checked before any setting takes effect. An unknown key, a value that is not allowed, and two keys that
// exclude each other throw c10::ValueError, which names the key, the value and the allowed values. A setting that is not
// implemented has no effect and causes one warning. A key that is not given has its default.
//
// PyTorch keeps the settings that all accelerators share. The keys of npu are registered with PyTorch, so that it accepts them.
//
// Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <cstddef>
#include <string>

namespace torch_npu {

struct C10_EXPORT CacheSettings {
  static CacheSettings read();

  size_t large_segment = 0;
  size_t max_split = 0;             // blocks of this size or more are not split
  size_t max_extra = 0;             // such a block is at most this much larger than its request
  size_t most_pending = 0;          // allocations query pending events of other streams only when there are more than this
  double collection_threshold = 0;  // fraction of the limit above which unused segments are given back; 0: never
  bool rounds_to_powers = false;    // roundup_power2_divisions is set
  bool has_gib_pages = false;       // segments for large requests are multiples of 1 GiB
  bool fails_at_once = false;       // an allocation does not give unused segments back and ask again
  bool expands = false;             // segments for large requests are expandable (expandable_segment.h)
  bool asks_unlocked = false;       // other threads may allocate while the device is asked for memory
};

// per_process_memory_fraction; 1 unless set.
double initial_memory_fraction();

// The first call reads the environment. Throws if the environment is wrong; so do later calls.
C10_EXPORT void read_allocator_environment();

C10_EXPORT void set_allocator_settings(const std::string& text);

}  // namespace torch_npu
