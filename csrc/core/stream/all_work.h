// Waits for all work of a device, or of this process. The latter is required before memory goes back to the device.
//
//   const NoCaptures scope;
//   if (!scope.holds()) return;   // a capture is open: keep the memory, a later call gives it back
//   wait_for_all_work();
//   ACL_CALL(aclrtFree, address);
//
// The device frees memory at once, and a block does not know all streams that use it: recordStream() is not required for streams
// that events order after the block's own stream. Streams of other devices may copy from the block. So all streams of all devices
// are waited for.
//
// Thread-safe.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Export.h>

namespace torch_npu {

// Waits for all work of device `index`. Throws the failure of a task, once.
C10_EXPORT void synchronize_device(c10::DeviceIndex index);

// Returns when every device that this process uses is idle. Throws WaitUnfinished (core/stream/wait.h), the exception of the
// interrupt check, or the failure of a task, which is then reported for the first and only time. Requires a NoCaptures that
// holds: a wait for a device with a captured stream fails and spoils the capture.
C10_EXPORT void wait_for_all_work();

// While an object lives no capture begins on any thread: begin_capture() waits.
class C10_EXPORT NoCaptures {
 public:
  NoCaptures();
  ~NoCaptures();
  NoCaptures(const NoCaptures&) = delete;
  NoCaptures& operator=(const NoCaptures&) = delete;

  // False if a capture was open already; the object then has no effect.
  bool holds() const { return holds_; }

 private:
  bool holds_;
};

// Held while a capture begins. Its constructor waits until no NoCaptures lives. The wait can be interrupted. Throws if the
// calling thread has a NoCaptures.
class BeginningCapture {
 public:
  BeginningCapture();
  ~BeginningCapture();
  BeginningCapture(const BeginningCapture&) = delete;
  BeginningCapture& operator=(const BeginningCapture&) = delete;
};

}  // namespace torch_npu
