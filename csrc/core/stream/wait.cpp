#include "core/stream/wait.h"

#include <atomic>

#include "acl/error_codes/rt_error_codes.h"
#include "base/options.h"
#include "core/device/device.h"

namespace torch_npu {
namespace {

std::atomic<InterruptCheck> interrupt_check{nullptr};
std::atomic<const InterpreterLock*> interpreter_lock{nullptr};
thread_local constinit int uninterrupted = 0;

[[noreturn]] void throw_unfinished(const std::string& text) {
  throw WaitUnfinished({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
}

// Codes of a wait that the device refuses. No task failed.
bool is_refusal(aclError code) {
  return code == ACL_ERROR_RT_STREAM_CAPTURED || code == ACL_ERROR_RT_EVENT_CAPTURED ||
         code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT || code == ACL_ERROR_RT_STREAM_ABORT;
}

}  // namespace

void set_interrupt_check(InterruptCheck check) { interrupt_check.store(check, std::memory_order_release); }

void check_interrupt() {
  if (uninterrupted > 0) return;
  if (const InterruptCheck check = interrupt_check.load(std::memory_order_acquire)) check();
  bind_device();
}

UninterruptedWaits::UninterruptedWaits() { ++uninterrupted; }
UninterruptedWaits::~UninterruptedWaits() { --uninterrupted; }

bool waits_are_uninterrupted() { return uninterrupted > 0; }

void set_interpreter_lock(const InterpreterLock* lock) { interpreter_lock.store(lock, std::memory_order_release); }

InterpreterUnlocked::InterpreterUnlocked() {
  const InterpreterLock* const lock = interpreter_lock.load(std::memory_order_acquire);
  state_ = lock == nullptr ? nullptr : lock->unlock();
}

InterpreterUnlocked::~InterpreterUnlocked() {
  if (state_ != nullptr) interpreter_lock.load(std::memory_order_acquire)->lock(state_);
}

bool detail::is_timeout(aclError code) {
  return code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT || code == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
}

void detail::fail_wait(aclError code, const char* function) {
  if (!options().resume_mode && is_refusal(code)) throw_unfinished(acl::describe(code, function));
  if (!options().resume_mode) acl::fail(code, function);
  const std::string text = acl::describe(code, function);
  if (options().warnings) TORCH_WARN(text, "\nRESUME_MODE_ENABLE=1: the program goes on.");
}

void detail::check_limit(WaitFor what, const char* function, std::chrono::steady_clock::time_point start) {
  const bool is_device = what == WaitFor::kDevice;
  const int64_t limit = is_device ? options().device_timeout : options().stream_timeout;
  if (limit < 0) return;
  const auto waited = std::chrono::steady_clock::now() - start + std::chrono::milliseconds(kSlice);
  if (waited < std::chrono::milliseconds(limit)) return;
  throw_unfinished(c10::str(function, " waited for more than ", limit, " milliseconds, which ",
                            is_device ? "ACL_DEVICE_SYNC_TIMEOUT" : "ACL_STREAM_TIMEOUT",
                            " allows. The work goes on; raise the variable, or unset it, if the work may take that long."));
}

}  // namespace torch_npu
