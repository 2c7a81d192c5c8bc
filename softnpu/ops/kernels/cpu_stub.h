// ATen's CPU kernel behind one of its stubs:
//
//   cpu_kernel(at::native::geqrf_stub)(matrix, tau);
//
// A stub's own call chooses among instruction sets that only ATen's build knows; the kernel for all processors is always there.
#pragma once

#include <ATen/native/DispatchStub.h>

namespace softnpu::ops::kernels {

template <class Stub>
auto cpu_kernel(const Stub& /*stub*/) {
  return Stub::DEFAULT;
}

}  // namespace softnpu::ops::kernels
