// Whether the calling thread is the main thread of the process.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace torch_npu {

inline bool is_main_thread() { return syscall(SYS_gettid) == getpid(); }

}  // namespace torch_npu
