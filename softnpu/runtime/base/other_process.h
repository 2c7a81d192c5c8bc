// Whether another process of this host is alive.
//
//   const ProcessId recorder = this_process();       // stored in shared memory
//   if (!is_alive(recorder)) ...                     // in another process
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace softnpu {

// A PID and the start time of its process, so that a later process with the same PID is not taken for it. Valid within one PID
// namespace.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // in the units of /proc/PID/stat; 0 if that could not be read
};

ProcessId this_process();

// False if the process has ended; a zombie counts as ended. True if /proc does not tell. Reads a file of /proc.
bool is_alive(const ProcessId& process);

}  // namespace softnpu
