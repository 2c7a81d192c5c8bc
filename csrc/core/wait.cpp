#include "core/wait.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "acl/error_codes/rt_error_codes.h"
#include "core/device.h"
#include "core/options.h"

namespace torch_npu {
namespace {

std::atomic<InterruptCheck> interrupt_check{nullptr};
thread_local constinit int uninterrupted = 0;

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

bool detail::is_timeout(aclError code) {
  return code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT || code == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
}

void detail::fail_wait(aclError code, const char* function) {
  if (!options().resume_mode) acl::fail(code, function);
  const std::string text = acl::describe(code, function);
  if (options().warnings) TORCH_WARN(text, "\nRESUME_MODE_ENABLE=1: the program goes on.");
}

void detail::check_limit(WaitFor what, const char* function, std::chrono::steady_clock::time_point start) {
  const bool is_device = what == WaitFor::kDevice;
  const int64_t limit = is_device ? options().device_timeout : options().stream_timeout;
  if (limit < 0) return;
  const auto waited = std::chrono::steady_clock::now() - start + std::chrono::milliseconds(kSlice);
  TORCH_CHECK(waited < std::chrono::milliseconds(limit), function, " waited for more than ", limit, " milliseconds, which ",
              is_device ? "ACL_DEVICE_SYNC_TIMEOUT" : "ACL_STREAM_TIMEOUT", " allows. The work goes on; raise the variable, or ",
              "unset it, if the work may take that long.");
}

}  // namespace torch_npu
