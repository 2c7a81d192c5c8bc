// Work that is due after each wait for the device.
//
//   stream.synchronize();      // waits, then calls after_synchronize()
//
// Memory without a cache (core/memory/uncached_memory.h) goes back to the device after a wait, so it installs a function here.
// Then errors that destructors met are thrown (core/device/late_errors.h). Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <atomic>

#include "core/device/late_errors.h"

namespace torch_npu {

using AfterSynchronize = void (*)();

namespace detail {

C10_EXPORT extern constinit std::atomic<AfterSynchronize> after_synchronize_hook;

}  // namespace detail

// Installs the function for the rest of the process.
inline void set_after_synchronize(AfterSynchronize hook) {
  detail::after_synchronize_hook.store(hook, std::memory_order_relaxed);
}

// Called after every call that waited for the device. Throws the errors that were added since the last call.
inline void after_synchronize() {
  if (const AfterSynchronize hook = detail::after_synchronize_hook.load(std::memory_order_relaxed)) [[unlikely]]
    hook();
  raise_late_errors();
}

}  // namespace torch_npu
