// Waiting for all work of this process, before memory goes back to the device.
//
//   const NoCaptures scope;
//   if (!scope.holds()) return;   // keep the memory: a later call gives it back
//   wait_for_all_work();
//   ACL_CALL(aclrtFree, address);
//
// The device frees at once, and a block does not know every stream that uses it: streams that events put in order with its own
// need not be named by recordStream(). So whoever gives memory back waits for all streams of all devices; those of other devices
// too, as they may copy from it.
//
// Thread-safe.
#pragma once

#include <c10/macros/Export.h>

namespace torch_npu {

// Returns when every device that this process uses is idle. Throws WaitUnfinished (core/stream/wait.h), what the interrupt check
// throws, or the failure of a task, which is reported here then, once. Only without captures: a device refuses to be waited for
// while one of its streams is captured, and the capture is lost.
C10_EXPORT void wait_for_all_work();

// While it lives, no capture begins, on any thread: the calls that begin one wait.
class C10_EXPORT NoCaptures {
 public:
  NoCaptures();
  ~NoCaptures();
  NoCaptures(const NoCaptures&) = delete;
  NoCaptures& operator=(const NoCaptures&) = delete;

  // False if a capture had begun already: this object has no effect then.
  bool holds() const { return holds_; }

 private:
  bool holds_;
};

// Held while a capture begins: waits until no NoCaptures lives, and can be interrupted. Throws if the calling thread has one.
class BeginningCapture {
 public:
  BeginningCapture();
  ~BeginningCapture();
  BeginningCapture(const BeginningCapture&) = delete;
  BeginningCapture& operator=(const BeginningCapture&) = delete;
};

}  // namespace torch_npu
