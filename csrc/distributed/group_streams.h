// Streams that belong to process groups alone.
//
//   GroupStream stream(device, high_priority);      // gives the stream back when it is destroyed
//
// A collective waits for other ranks. On a stream of the pool of torch.npu.Stream it would hold up work of the program that has
// nothing to do with it, and two messages that wait for each other could end up on one stream. Streams are created when needed,
// never destroyed, and used again by later groups. Thread-safe.
#pragma once

#include "core/stream/stream.h"

namespace torch_npu::distributed {

class GroupStream {
 public:
  GroupStream(c10::DeviceIndex device, bool high_priority);
  ~GroupStream();
  GroupStream(const GroupStream&) = delete;
  GroupStream& operator=(const GroupStream&) = delete;

  NPUStream get() const { return stream_; }

 private:
  NPUStream stream_;
  bool high_priority_;
};

}  // namespace torch_npu::distributed
