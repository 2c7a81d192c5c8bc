#include "runtime/stream/exception.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

std::atomic<aclrtExceptionInfoCallback> g_callback{nullptr};

}  // namespace

void set_exception_callback(aclrtExceptionInfoCallback callback) { g_callback.store(callback, std::memory_order_release); }

void report_exception(rtExceptionInfo info) {
  const aclrtExceptionInfoCallback callback = g_callback.load(std::memory_order_acquire);
  if (callback == nullptr) return;
  info.thread_id = uint32_t(syscall(SYS_gettid));
  ThreadState& state = thread_state();
  const bool nested = std::exchange(state.in_host_callback, true);
  callback(&info);
  state.in_host_callback = nested;
}

}  // namespace softnpu
