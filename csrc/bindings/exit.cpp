#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "bindings/bind.h"

namespace torch_npu::bindings {
namespace {

std::terminate_handler previous_handler = nullptr;

// A thread that the interpreter ends is unwound without an exception; the process exits around it.
[[noreturn]] void park_or_terminate() {
  const bool is_main_thread = syscall(SYS_gettid) == getpid();
  while (!is_main_thread && std::current_exception() == nullptr) pause();
  previous_handler();
  std::abort();
}

}  // namespace

void park_threads_at_exit() {
  if (previous_handler == nullptr) previous_handler = std::set_terminate(park_or_terminate);
}

}  // namespace torch_npu::bindings
