// Special functions that are more than one call with its shape function.
#include <ATen/TensorIterator.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/frexp_native.h>
#include <ATen/ops/mvlgamma_native.h>
#include <torch/library.h>

#include "aten/device_scope.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

void frexp(at::TensorIteratorBase& operands) {
  const DeviceScope scope(operands.tensor(0));
  call::aclnnSoftFrexp(operands.tensor(2), operands.tensor(0), operands.tensor(1));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("frexp.Tensor_out", TORCH_FN(at::native::frexp_out));
  m.impl("mvlgamma.out", TORCH_FN(at::native::mvlgamma_out));
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(frexp_stub, &torch_npu::frexp)

}  // namespace at::native
