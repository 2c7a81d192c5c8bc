#include "core/stream/all_work.h"

#include <c10/util/Exception.h>

#include <shared_mutex>

#include "acl/symbol.h"
#include "core/device/device.h"
#include "core/stream/after_synchronize.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

// Locked shared by NoCaptures, exclusively by BeginningCapture.
std::shared_timed_mutex& captures_mutex() {
  static auto* const leaked = new std::shared_timed_mutex;
  return *leaked;
}

thread_local constinit int no_captures = 0;  // objects of NoCaptures on this thread that hold

// The wait is repeated until it succeeds: RESUME_MODE_ENABLE=1 turns a failure into a warning, and another failure may follow.
void wait_for_device(c10::DeviceIndex device) {
  constexpr int kMostAttempts = 3;
  constexpr const char* kFunction = "aclrtSynchronizeDeviceWithTimeout";
  const BoundDevice bound(device);
  aclError code = ACL_SUCCESS;
  for (int i = 0; i < kMostAttempts; ++i) {
    wait_in_slices(
        kFunction, [&](int32_t milliseconds) { return code = ACL_FN(aclrtSynchronizeDeviceWithTimeout)(milliseconds); },
        WaitFor::kDevice);
    if (code == ACL_SUCCESS) return;
  }
  throw WaitUnfinished({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                       c10::str("npu:", static_cast<int>(device), " was not found idle: ", kFunction, " failed ", kMostAttempts,
                                " times. The memory that was to be given back is kept."));
}

}  // namespace

void synchronize_device(c10::DeviceIndex index) {
  const c10::DeviceIndex device = checked_device(index);
  detail::refuse_in_forked_child();
  if (!has_context(device)) return;
  before_wait();
  const BoundDevice bound(device);
  wait_in_slices(
      "aclrtSynchronizeDeviceWithTimeout",
      [](int32_t milliseconds) { return ACL_FN(aclrtSynchronizeDeviceWithTimeout)(milliseconds); }, WaitFor::kDevice);
  after_synchronize();
}

void wait_for_all_work() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (has_context(device)) wait_for_device(device);
  }
  bind_device();  // wait_for_device() has bound other devices
}

NoCaptures::NoCaptures() {
  before_wait();
  captures_mutex().lock_shared();
  holds_ = !captures_exist();
  if (holds_) {
    ++no_captures;
  } else {
    captures_mutex().unlock_shared();
  }
}

NoCaptures::~NoCaptures() {
  if (!holds_) return;
  --no_captures;
  captures_mutex().unlock_shared();
}

BeginningCapture::BeginningCapture() {
  TORCH_CHECK(no_captures == 0, "a capture cannot begin here: this thread is giving memory back to the device, and the capture ",
              "was begun by a function that is called meanwhile (a signal handler, or the free function of an allocator)");
  while (!captures_mutex().try_lock_for(std::chrono::milliseconds(detail::kSlice))) check_interrupt();
}

BeginningCapture::~BeginningCapture() { captures_mutex().unlock(); }

}  // namespace torch_npu
