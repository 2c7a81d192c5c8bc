// Waiting for the device. Every wait of the plugin goes through here, so that Ctrl-C ends it.
//
//   wait_in_slices("aclrtSynchronizeEventWithTimeout",
//                  [&](int32_t milliseconds) { return ACL_FN(aclrtSynchronizeEventWithTimeout)(event, milliseconds); });
//
// A wait is cut into slices. Between two of them the interrupt check runs: it may run code of the user, on this thread, and
// throws if the wait is to end. The work that was waited for goes on all the same. What is done within the first slice costs no
// more than a plain call.
//
// A wait that takes longer than ACL_STREAM_TIMEOUT or ACL_DEVICE_SYNC_TIMEOUT allows throws WaitUnfinished. They are looked at
// between slices. So does one that the device refuses: in a host callback, in a capture, and when the process exits.
//
// Each slice asks anew: where others record the event again, or keep the device busy without a pause, the wait goes on with them.
//
// Thread-safe.
#pragma once

#include <c10/util/Exception.h>

#include <chrono>

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

// Whether one lives on this thread.
bool waits_are_uninterrupted();

// Gives the interpreter's lock up while it lives, if this thread has it: for waits in the destructors of tensors, which Python
// calls with the lock. No lock that others may want meanwhile may be held.
class C10_EXPORT InterpreterUnlocked {
 public:
  InterpreterUnlocked();
  ~InterpreterUnlocked();
  InterpreterUnlocked(const InterpreterUnlocked&) = delete;
  InterpreterUnlocked& operator=(const InterpreterUnlocked&) = delete;

 private:
  void* state_;
};

// `unlock` returns what `lock` takes; null if this thread does not have the lock.
struct InterpreterLock {
  void* (*unlock)();
  void (*lock)(void* state);
};
// Null for none; `lock` must stay until the process ends.
C10_EXPORT void set_interpreter_lock(const InterpreterLock* lock);

// The wait ended before the work did, and nothing failed. Whoever waits before memory goes back keeps the memory then.
class C10_EXPORT WaitUnfinished : public c10::Error {
 public:
  using c10::Error::Error;
};

enum class WaitFor { kStream, kDevice };

namespace detail {

constexpr int32_t kSlice = 50;  // milliseconds; no longer than a hand on the keyboard notices

C10_EXPORT bool is_timeout(aclError code);

// Throws the failure; with RESUME_MODE_ENABLE=1 it warns and returns.
C10_EXPORT void fail_wait(aclError code, const char* function);

// Throws WaitUnfinished, naming the variable that sets the limit, if a wait is over its limit whose first slice was over at
// `start`.
C10_EXPORT void check_limit(WaitFor what, const char* function, std::chrono::steady_clock::time_point start);

}  // namespace detail

// `attempt` waits for so many milliseconds and returns `function`'s code. True if the wait is over, false if it is to be tried
// again; throws if it failed.
template <typename Attempt>
bool wait_a_slice(const char* function, const Attempt& attempt) {
  const aclError code = attempt(detail::kSlice);
  if (code == ACL_SUCCESS) [[likely]]
    return true;
  if (detail::is_timeout(code)) return false;
  detail::fail_wait(code, function);
  return true;
}

template <typename Attempt>
void wait_in_slices(const char* function, const Attempt& attempt, WaitFor what = WaitFor::kStream) {
  if (wait_a_slice(function, attempt)) [[likely]]
    return;
  const auto start = std::chrono::steady_clock::now();
  do {
    detail::check_limit(what, function, start);
    check_interrupt();
  } while (!wait_a_slice(function, attempt));
}

}  // namespace torch_npu
