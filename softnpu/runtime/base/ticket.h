// A ticket: the number of a task in the order of its queue (stream/task_queue.h).
//
//   const Ticket newest = queue.submitted();
//   queue.reached(newest);                      // whether every task up to that one is done
#pragma once

#include <cstdint>

namespace softnpu {

using Ticket = uint64_t;

}  // namespace softnpu
