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

// Looks at all operations soon, so that those of a group that was left do not keep its threads.
void review_operations();
void watch(std::shared_ptr<Operation> operation);
// Stores the failure of a communicator as that of its group, and writes the flight recorder if that is wanted. Returns the text.
std::string note_failure(Group& group, const Communicator& communicator, const std::string& where);
// The program got the error of a group, or left a group. With TORCH_HCCL_ASYNC_ERROR_HANDLING=1 or 3 the process is ended if this
// does not happen within 30 seconds after a failure.
void program_took_notice() noexcept;

}  // namespace torch_npu::distributed
