// Special functions that are more than one call with its shape function.
#include <ATen/OpMathType.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/frexp_native.h>
#include <ATen/ops/mvlgamma_native.h>
#include <ATen/ops/pow.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

void frexp(at::TensorIteratorBase& operands) {
  const DeviceScope scope(operands.tensor(0));
  call::aclnnSoftFrexp(operands.tensor(2), operands.tensor(0), operands.tensor(1));
}

// The power of two may be too large or too small for the type of the result, which is not.
void ldexp(at::TensorIteratorBase& operands) {
  const at::Tensor& self = operands.tensor(1);
  const at::ScalarType wide = at::toOpMathType(self.scalar_type());
  operands.tensor(0).copy_(self.to(wide) * at::pow(2., operands.tensor(2).to(wide)));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("frexp.Tensor_out", TORCH_FN(at::native::frexp_out));
  m.impl("mvlgamma.out", TORCH_FN(at::native::mvlgamma_out));
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(frexp_stub, &torch_npu::frexp)
REGISTER_PRIVATEUSE1_DISPATCH(ldexp_stub, &torch_npu::ldexp)

}  // namespace at::native
