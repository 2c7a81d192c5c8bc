// The CPU kernel of a dispatch stub of ATen:
//
//   cpu_kernel(at::native::geqrf_stub)(matrix, tau);
//
// Calling the stub itself needs the list of instruction sets of ATen's build. The kernel for all processors always exists.
#pragma once

#include <ATen/native/DispatchStub.h>

namespace softnpu::ops::kernels {

template <class Stub>
auto cpu_kernel(const Stub& /*stub*/) {
  return Stub::DEFAULT;
}

}  // namespace softnpu::ops::kernels
