#include "core/thread_parking.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "base/main_thread.h"

namespace torch_npu {
namespace {

std::terminate_handler previous_handler = nullptr;

[[noreturn]] void park_or_terminate() {
  while (!is_main_thread() && std::current_exception() == nullptr) pause();
  previous_handler();
  std::abort();
}

}  // namespace

void park_threads_at_exit() {
  if (previous_handler == nullptr) previous_handler = std::set_terminate(park_or_terminate);
}

}  // namespace torch_npu
