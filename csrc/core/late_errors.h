// Errors that destructors met, which must not throw: they reach the program later.
//
//   try {
//     give_back();
//   } catch (...) {
//     raise_later(std::current_exception());
//   }
//
// A failure of the device is thrown by the next synchronising call or uncached allocation, or printed at exit. What a signal
// handler threw goes to the interrupt keeper, which raises it in Python. A wait that was only not finished (WaitUnfinished) is no
// error: who met it keeps the memory and waits again later.
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
// Those that nobody has met, at the end of the process.
void print_late_errors();

// Takes exceptions that are not c10::Error. Null for none, which is how a process without Python starts.
using InterruptKeeper = void (*)(std::exception_ptr interrupt);
C10_EXPORT void set_interrupt_keeper(InterruptKeeper keeper);

namespace detail {

C10_EXPORT extern constinit std::atomic<bool> late_errors_exist;
C10_EXPORT void throw_late_errors();

}  // namespace detail

// Throws what was added since the last call. One load where there is nothing.
inline void raise_late_errors() {
  if (detail::late_errors_exist.load(std::memory_order_relaxed)) [[unlikely]]
    detail::throw_late_errors();
}

}  // namespace torch_npu
