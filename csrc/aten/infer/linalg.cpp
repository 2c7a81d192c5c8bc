// Shapes of products, distances and other functions of matrices.
#include <ATen/ExpandUtils.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/result_type.h>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

namespace {

void check_factor(const at::Scalar& value, const char* name, at::ScalarType dtype) {
  TORCH_CHECK(!value.isBoolean() || dtype == at::kBool, "Boolean ", name, " only supported for Boolean results.");
  TORCH_CHECK(at::isFloatingType(dtype) || at::isComplexType(dtype) || value.isIntegral(/*includeBool=*/true),
              "For integral input tensors, argument ", name, " must not be a floating point number.");
}

}  // namespace

void mm(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(self.dtype() == mat2.dtype(), "expected m1 and m2 to have the same dtype, but got: ", self.dtype(),
              " != ", mat2.dtype());
}

void addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& /*beta*/,
           const at::Scalar& /*alpha*/) {
  TORCH_CHECK(self.dtype() == mat2.dtype(), "self and mat2 must have the same dtype, but got ", self.scalar_type(), " and ",
              mat2.scalar_type());
  TORCH_CHECK(mat1.dtype() == mat2.dtype(), "mat1 and mat2 must have the same dtype, but got ", mat1.scalar_type(), " and ",
              mat2.scalar_type());
  if (C10_UNLIKELY(self.numel() == 0 && mat1.dim() == 2 && mat2.dim() == 2)) (void)self.expand({mat1.size(0), mat2.size(1)});
}

void bmm(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(self.dtype() == mat2.dtype(), "expected scalar type ", self.scalar_type(), " but found ", mat2.scalar_type());
}

Outputs<1> addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha) {
  TORCH_CHECK(vec1.dim() == 1 && vec2.dim() == 1, "addr: Expected 1-D arguments vec1 and vec2, but got ", vec1.dim(), "-D and ",
              vec2.dim(), "-D");
  const at::ScalarType dtype = at::promote_types(at::result_type(self, vec1), vec2.scalar_type());
  check_factor(beta, "beta", dtype);
  check_factor(alpha, "alpha", dtype);
  const at::Tensor expanded = self.expand({vec1.size(0), vec2.size(0)}), column = vec1.unsqueeze(1);
  return {broadcast({expanded, column, vec2}, dtype)};
}

Outputs<1> addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& /*beta*/,
                  const at::Scalar& /*alpha*/) {
  const int64_t rows = batch1.size(1), columns = batch2.size(2);
  (void)self.expand({rows, columns});
  TORCH_CHECK(batch1.dim() == 3 && batch2.dim() == 3, "batch1 and batch2 must be 3D tensors");
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (",
              batch1.sizes(), " and ", batch2.sizes(), ")");
  return {sized({rows, columns}, self.options())};
}

Outputs<1> dot(const at::Tensor& self, const at::Tensor& tensor) {
  TORCH_CHECK(self.dim() == 1 && tensor.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", tensor.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == tensor.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", tensor.scalar_type());
  TORCH_CHECK(self.numel() == tensor.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              tensor.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", tensor.numel(),
              " elements respectively");
  return {sized({}, self.options())};
}

Outputs<1> trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  const at::ScalarType own = self.scalar_type();
  return {sized({}, self.options().dtype(at::isIntegralType(own, true) ? at::kLong : own))};
}

Outputs<1> cdist(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> /*compute_mode*/) {
  TORCH_CHECK(at::isFloatingType(x1.scalar_type()), "cdist only supports floating-point dtypes, X1 got: ", x1.scalar_type());
  TORCH_CHECK(at::isFloatingType(x2.scalar_type()), "cdist only supports floating-point dtypes, X2 got: ", x2.scalar_type());
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2, "cdist only supports at least 2D tensors, got ", x1.dim(), "D and ", x2.dim(), "D");
  TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  Sizes sizes(at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2)));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  return {sized(sizes, x1.options())};
}

Outputs<1> cdist_backward(const at::Tensor& /*grad*/, const at::Tensor& x1, const at::Tensor& x2, double /*p*/,
                          const at::Tensor& /*cdist*/) {
  Sizes sizes(at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2)));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x1.size(-1));
  return {sized(sizes, x1.options())};
}

Outputs<1> pdist(const at::Tensor& self, double /*p*/) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
  const int64_t rows = self.size(0);
  return {sized({rows <= 1 ? 0 : rows * (rows - 1) / 2}, self.options())};
}

Outputs<1> columns(const at::Tensor& self, const at::Tensor& /*A*/, bool /*upper*/) {
  Output output = sized(self.sizes(), self.options());
  output.strides = Sizes(at::native::batched_matrix_contiguous_strides(self.sizes(), /*f_contig=*/true));
  return {output};
}

Outputs<1> matrix_exp(const at::Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  return {self.size(-1) > 1 ? sized(self.sizes(), self.options()) : like(self)};
}

void lu(const at::Tensor& A, bool pivot) {
  TORCH_CHECK(pivot || A.numel() == 0, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
}

}  // namespace torch_npu::infer
