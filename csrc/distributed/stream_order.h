// Keeps work that several streams do for one purpose in the order in which the program issued it.
//
//   order.enter(stream);       // the later work of `stream` starts after the work of the streams that left before
//   launch(stream);
//   order.leave(stream);
//
// All ranks must start the collectives of a communicator in the same order, although asynchronous ones run on the group's stream
// and others on the current stream. The caller locks.
#pragma once

#include <optional>

#include "core/stream/event.h"

namespace torch_npu::distributed {

class StreamOrder {
 public:
  void enter(NPUStream stream) {
    if (last_.has_value() && *last_ != stream) done_.block(stream);
  }
  void leave(NPUStream stream) {
    done_.record(stream);
    last_ = stream;
  }
  // Waits for the newest work. Throws its failure. Can be interrupted.
  void wait() const { done_.wait(); }

 private:
  std::optional<NPUStream> last_;
  NPUEvent done_;
};

}  // namespace torch_npu::distributed
