// Waiting for the device. Every wait of the plugin goes through here, so that Ctrl-C ends it.
//
//   wait_in_slices("aclrtSynchronizeEventWithTimeout",
//                  [&](int32_t milliseconds) { return ACL_FN(aclrtSynchronizeEventWithTimeout)(event, milliseconds); });
//
// A wait is cut into slices. Between two of them the interrupt check runs: it may run code of the user, on this thread, and
// throws if the wait is to end. The work that was waited for goes on all the same. What is done within the first slice costs no
// more than a plain call.
//
// Each slice asks anew: where others record the event again, or keep the device busy without a pause, the wait goes on with them.
//
// Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include "acl/acl_rt.h"
#include "acl/error.h"

namespace torch_npu {

// Null for none, which is how a process without Python starts.
using InterruptCheck = void (*)();
C10_EXPORT void set_interrupt_check(InterruptCheck check);

// Throws if the calling thread is to stop waiting. Binds the current device again, which the user's code may have changed.
C10_EXPORT void check_interrupt();

// While it lives, waits of this thread are not interrupted: for those who hold a lock, which the user's code may want.
class C10_EXPORT UninterruptedWaits {
 public:
  UninterruptedWaits();
  ~UninterruptedWaits();
  UninterruptedWaits(const UninterruptedWaits&) = delete;
  UninterruptedWaits& operator=(const UninterruptedWaits&) = delete;
};

namespace detail {

constexpr int32_t kSlice = 50;  // milliseconds; no longer than a hand on the keyboard notices

C10_EXPORT bool is_timeout(aclError code);

}  // namespace detail

// `attempt` waits for so many milliseconds and returns `function`'s code. True if the wait is over, false if it is to be tried
// again; throws if it failed.
template <typename Attempt>
bool wait_a_slice(const char* function, const Attempt& attempt) {
  const aclError code = attempt(detail::kSlice);
  if (code == ACL_SUCCESS) [[likely]]
    return true;
  if (!detail::is_timeout(code)) acl::fail(code, function);
  return false;
}

template <typename Attempt>
void wait_in_slices(const char* function, const Attempt& attempt) {
  while (!wait_a_slice(function, attempt)) check_interrupt();
}

}  // namespace torch_npu
