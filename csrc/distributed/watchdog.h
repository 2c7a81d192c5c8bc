// Watches launched operations on a thread: finds those that exceed their timeout or whose communicator failed.
//
//   watch(operation);            // after the launch
//
// The thread starts with the first operation. It looks ten times per second while operations are pending, and sleeps without a
// time limit otherwise. It never takes the interpreter's lock, except where the last reference to a tensor of Python is dropped.
// Thread-safe.
#pragma once

#include <memory>

#include "distributed/operation.h"

namespace torch_npu::distributed {

void watch(std::shared_ptr<Operation> operation);

}  // namespace torch_npu::distributed
