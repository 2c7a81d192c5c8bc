// Errors of destructors. A destructor must not throw, so the program gets the error from a later call.
//
//   try {
//     give_back();
//   } catch (...) {
//     raise_later(std::current_exception());
//   }
//
// The next synchronising call or uncached allocation throws a failure of the device; without such a call it is printed at exit.
// An exception of a Python signal handler goes to the interrupt keeper, which raises it in Python. WaitUnfinished is dropped:
// nothing failed, and the code that waited keeps the memory and waits again later.
//
// Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <atomic>
#include <exception>
#include <string>

namespace torch_npu {

C10_EXPORT void raise_later(std::exception_ptr failure) noexcept;
void add_late_error(const std::string& text);
// Prints the errors that were not thrown. Called at the end of the process.
void print_late_errors();

// Takes exceptions that are not a c10::Error. Null, the initial value, for none. The bindings set it.
using InterruptKeeper = void (*)(std::exception_ptr interrupt);
C10_EXPORT void set_interrupt_keeper(InterruptKeeper keeper);

namespace detail {

C10_EXPORT extern constinit std::atomic<bool> late_errors_exist;
C10_EXPORT void throw_late_errors();

}  // namespace detail

// Throws the errors that were added since the last call. Costs one load if there are none.
inline void raise_late_errors() {
  if (detail::late_errors_exist.load(std::memory_order_relaxed)) [[unlikely]]
    detail::throw_late_errors();
}

}  // namespace torch_npu
