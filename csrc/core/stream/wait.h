// Waits for the device that Ctrl-C can end. Every wait of the plugin uses wait_in_slices().
//
//   wait_in_slices("aclrtSynchronizeEventWithTimeout",
//                  [&](int32_t milliseconds) { return ACL_FN(aclrtSynchronizeEventWithTimeout)(event, milliseconds); });
//
// A wait is cut into slices. Between two slices the interrupt check runs on this thread. It may run code of the user, and throws
// if the wait must end. The work on the device continues in that case. A wait that ends within the first slice costs no more than
// a plain call.
//
// A wait throws WaitUnfinished if it exceeds ACL_STREAM_TIMEOUT or ACL_DEVICE_SYNC_TIMEOUT, which are checked between slices, or
// if the device refuses to wait: in a host callback, in a capture, and when the process exits.
//
// Each slice is a new call of the device library. If other threads record the event again, or always keep the device busy, the
// wait includes their work.
//
// Thread-safe.
#pragma once

#include <c10/util/Exception.h>

#include <chrono>

#include "acl/acl_rt.h"
#include "acl/error.h"
#include "core/device/wait_unfinished.h"

namespace torch_npu {

// Null, the initial value, for no check. The bindings set it.
using InterruptCheck = void (*)();
C10_EXPORT void set_interrupt_check(InterruptCheck check);

// Throws if the calling thread must stop waiting. Then binds the current device again, because the user's code may have bound
// another one.
C10_EXPORT void check_interrupt();

// While an object lives, waits of this thread are not interrupted. For code that holds a lock that the user's code may need.
class C10_EXPORT UninterruptedWaits {
 public:
  UninterruptedWaits();
  ~UninterruptedWaits();
  UninterruptedWaits(const UninterruptedWaits&) = delete;
  UninterruptedWaits& operator=(const UninterruptedWaits&) = delete;
};

// Whether an UninterruptedWaits lives on this thread.
bool waits_are_uninterrupted();

// Releases the interpreter's lock while it lives, if this thread has it. For waits in destructors of tensors, which Python calls
// with the lock. The thread must hold no other lock that a thread with the interpreter's lock may wait for.
class C10_EXPORT InterpreterUnlocked {
 public:
  InterpreterUnlocked();
  ~InterpreterUnlocked();
  InterpreterUnlocked(const InterpreterUnlocked&) = delete;
  InterpreterUnlocked& operator=(const InterpreterUnlocked&) = delete;

 private:
  void* state_;
};

// `unlock` returns the argument for `lock`, or null if this thread does not have the lock.
struct InterpreterLock {
  void* (*unlock)();
  void (*lock)(void* state);
};
// Null for none. `lock` must live until the process ends.
C10_EXPORT void set_interpreter_lock(const InterpreterLock* lock);

enum class WaitFor { kStream, kDevice };

namespace detail {

constexpr int32_t kSlice = 50;  // milliseconds; a user does not notice this delay of Ctrl-C

C10_EXPORT bool is_timeout(aclError code);

// Throws the failure; with RESUME_MODE_ENABLE=1 it warns and returns.
C10_EXPORT void fail_wait(aclError code, const char* function);

// Throws WaitUnfinished, naming the variable of the limit, if the wait has exceeded its limit. Its first slice ended at `start`.
C10_EXPORT void check_limit(WaitFor what, const char* function, std::chrono::steady_clock::time_point start);

}  // namespace detail

// `attempt(milliseconds)` waits that long at most and returns the code of `function`. True if the wait is over, false if it must
// be repeated. Throws if it failed.
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
