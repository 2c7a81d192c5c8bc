// Matrix products with a wider result, and the gradient of matmul. The CPU has none of them.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"

namespace torch_npu {
namespace {

// The products below convert their operands to the dtype of the result. Products of half-precision numbers are exact in float.
void check_wider(const at::Tensor& self, at::ScalarType out_dtype) {
  const bool widens = out_dtype == at::kFloat && at::isReducedFloatingType(self.scalar_type());
  TORCH_CHECK(out_dtype == self.scalar_type() || widens,
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs, got ", out_dtype, " for ",
              self.scalar_type());
}

at::Tensor mm(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  check_wider(self, out_dtype);
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "input dtypes must be the same");
  return at::mm(self.to(out_dtype), mat2.to(out_dtype));
}

at::Tensor bmm(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  check_wider(self, out_dtype);
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "input dtypes must be the same");
  return at::bmm(self.to(out_dtype), mat2.to(out_dtype));
}

at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, at::ScalarType out_dtype,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  check_wider(mat1, out_dtype);
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(), "mat1 and mat2 must have the same dtype");
  return at::addmm(self.to(out_dtype), mat1.to(out_dtype), mat2.to(out_dtype), beta, alpha);
}

at::Tensor baddbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, at::ScalarType out_dtype,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  check_wider(batch1, out_dtype);
  TORCH_CHECK(batch1.scalar_type() == batch2.scalar_type(), "batch1 and batch2 must have the same dtype");
  return at::baddbmm(self.to(out_dtype), batch1.to(out_dtype), batch2.to(out_dtype), beta, alpha);
}

// A vector is a matrix of one row on the left and of one column on the right.
std::tuple<at::Tensor, at::Tensor> matmul_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& other,
                                                   std::array<bool, 2> mask) {
  const at::Tensor left = self.dim() == 1 ? self.unsqueeze(0) : self;
  const at::Tensor right = other.dim() == 1 ? other.unsqueeze(-1) : other;
  at::Tensor product = self.dim() == 1 ? grad.unsqueeze(other.dim() == 1 ? -1 : -2) : grad;
  if (other.dim() == 1) product = product.unsqueeze(-1);
  at::Tensor grad_self, grad_other;
  if (mask[0]) grad_self = at::sum_to(at::matmul(product, right.mH()), left.sizes()).reshape(self.sizes());
  if (mask[1]) grad_other = at::sum_to(at::matmul(left.mH(), product), right.sizes()).reshape(other.sizes());
  return {grad_self, grad_other};
}

using Number = const at::Scalar&;
using Input = const at::Tensor&;

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm.dtype", TORCH_FN(mm));
  m.impl("mm.dtype_out", TORCH_FN((out_form<mm, Input, Input, at::ScalarType>)));
  m.impl("bmm.dtype", TORCH_FN(bmm));
  m.impl("bmm.dtype_out", TORCH_FN((out_form<bmm, Input, Input, at::ScalarType>)));
  m.impl("addmm.dtype", TORCH_FN(addmm));
  m.impl("addmm.dtype_out", TORCH_FN((out_form<addmm, Input, Input, Input, at::ScalarType, Number, Number>)));
  m.impl("baddbmm.dtype", TORCH_FN(baddbmm));
  m.impl("baddbmm.dtype_out", TORCH_FN((out_form<baddbmm, Input, Input, Input, at::ScalarType, Number, Number>)));
  m.impl("matmul_backward", TORCH_FN(matmul_backward));
}

}  // namespace torch_npu
