// Explains a SIGSEGV or SIGBUS that the rules of device memory cause, in one line on stderr:
//
//   softnpu: SIGSEGV: host code read device address 0x7f5a40000010, offset 16 of the allocation of 64 bytes at 0x7f5a40000000 on
//   device 0: device memory is not the host's; copy it with tensor.cpu() or aclrtMemcpy
//
// Three kinds of faults are explained: host code that uses a device address, a kernel outside of live allocations (see guard
// pages in heap.h), and a copy or kernel that meets host memory which is not there. Then, and for every other fault at once, that
// happens which would have happened without this: handlers that were installed earlier run, the default action ends the process
// with its signal and its core file. A handler that is installed later and passes the signal on, as Python's faulthandler does,
// is followed by the line.
#pragma once

namespace softnpu {

// Installs the handlers, once per process, unless SOFTNPU_FAULT_REPORT is 0. For the first use of a device: what is enabled
// earlier is passed on to. Thread-safe.
void install_fault_report();

}  // namespace softnpu
