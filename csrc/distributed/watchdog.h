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

// Checks all operations now. Otherwise the pending operations of a destroyed group would keep its threads alive.
void review_operations();
void watch(std::shared_ptr<Operation> operation);
// Stores the failure of a communicator as the failure of its group, and writes the flight recorder if
// TORCH_HCCL_DUMP_ON_TIMEOUT is 1. Returns the text of the failure.
std::string note_failure(Group& group, const Communicator& communicator, const std::string& where);
// Called when the program gets the error of a group, or leaves a group. With TORCH_HCCL_ASYNC_ERROR_HANDLING=1 or 3 the watchdog
// ends the process if this does not happen within 30 seconds after a failure.
void program_took_notice() noexcept;

}  // namespace torch_npu::distributed
