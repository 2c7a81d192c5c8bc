// Explains a SIGSEGV or SIGBUS that device memory causes, in one line on stderr:
//
//   softnpu: SIGSEGV: host code read device address 0x7f5a40000010, offset 16 of the allocation of 64 bytes at 0x7f5a40000000 on
//   device 0: device memory is not the host's; copy it with tensor.cpu() or aclrtMemcpy
//
// Three kinds of faults are explained: host code that uses a device address, a kernel that accesses memory outside live
// allocations (see guard pages in memory/heap.h), and a copy or kernel that uses unmapped host memory. Then the previously
// installed handler runs, or the default action ends the process with its signal and its core file. For any other fault only that
// happens. If a handler is installed later and passes the signal on, as Python's faulthandler does, the line is printed after the
// output of that handler.
#pragma once

#include "runtime/driver.h"

namespace softnpu {

// Installs the handlers, once per process, unless SOFTNPU_FAULT_REPORT is 0. Called at the first use of a device. Handlers that
// are installed by then get the signal afterwards. `any_running_kind` returns the kind of a task that runs now, or null; it is
// called in the signal handler, for faults on threads that a kernel started. Thread-safe.
void install_fault_report(const SoftnpuTaskKind* (*any_running_kind)());

}  // namespace softnpu
