#include "core/wait.h"

#include <atomic>

#include "acl/error_codes/rt_error_codes.h"
#include "core/device.h"

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

bool detail::is_timeout(aclError code) {
  return code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT || code == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
}

}  // namespace torch_npu
