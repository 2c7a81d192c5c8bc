// The settings of the allocators: PYTORCH_NPU_ALLOC_CONF or PYTORCH_ALLOC_CONF, and what is set while the program runs.
//
//   set_allocator_settings("max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]");
//   if (CacheSettings::read().max_split ...
//
// All of a text is checked before any of it takes effect. An unknown key, a value that is not allowed, and keys that exclude each
// other are a c10::ValueError that names the key, the value and what is allowed. What is not built yet is named by one warning
// and has no effect. A key that is not given has its default.
//
// PyTorch itself keeps what all accelerators share; keys that only npu has are made known to it, so that it accepts them too.
#pragma once

#include <c10/macros/Export.h>

#include <cstddef>
#include <string>

namespace torch_npu {

struct C10_EXPORT CacheSettings {
  static CacheSettings read();

  size_t large_segment = 0;
  size_t max_split = 0;             // blocks of this size or more are not cut
  size_t max_extra = 0;             // how much larger than its request such a block may be
  size_t most_pending = 0;          // so many marks of other streams are left alone until memory is short
  double collection_threshold = 0;  // share of what is allowed beyond which unused segments are given back; 0: never
  bool rounds_to_powers = false;    // of 2, divided as the settings say
  bool has_huge_pages = false;      // segments of 1 GiB
  bool fails_at_once = false;       // instead of giving unused segments back and asking again
  bool expands = false;             // segments for large requests are expandable_segment.h
  bool asks_unlocked = false;       // others may allocate while the device is asked
};

// Of a process; 1 unless set.
double initial_memory_fraction();

// Reads the environment, at the first call. Throws for what is wrong there, every time.
C10_EXPORT void read_allocator_environment();

C10_EXPORT void set_allocator_settings(const std::string& text);

}  // namespace torch_npu
