// Whether another process of this host still lives.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace softnpu {

// A process, told apart from later ones that get its number. Seen from the same PID namespace.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // as /proc/PID/stat counts; 0 if that could not be read
};

ProcessId this_process();

// False once the process has ended, whether or not its parent has asked for its exit status. True where that cannot be told.
// Reads a file of /proc.
bool is_alive(const ProcessId& process);

}  // namespace softnpu
