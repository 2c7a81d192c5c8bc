// Sparse compressed tensors (CSR, CSC, BSR, BSC). ATen's CPU kernels make, copy and convert them on the device. Arithmetic that
// is not elementwise is a fallback.
#include "aten/machinery/borrowed_kernels.h"
#include "aten/machinery/fallback.h"

namespace torch_npu {

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  constexpr auto kLender = c10::DispatchKey::SparseCsrCPU;
  borrow_unary<kLender>(
      m, {"abs",   "asin", "asinh",   "atan",  "atanh", "ceil", "deg2rad", "erf",  "erfinv", "expm1", "floor", "frac",
          "log1p", "neg",  "rad2deg", "round", "sgn",   "sign", "sin",     "sinh", "sqrt",   "tan",   "tanh",  "trunc"});
  borrow<kLender>(m, {"relu",
                      "relu_",
                      "isnan",
                      "isinf",
                      "isposinf",
                      "isposinf.out",
                      "isneginf",
                      "isneginf.out",
                      "signbit",
                      "signbit.out",
                      "angle",
                      "angle.out",
                      "_conj_physical",
                      "conj_physical_",
                      "conj_physical.out",
                      "mul.Scalar",
                      "mul_.Scalar",
                      "fill_.Scalar",
                      "normal_",
                      "threshold_backward",
                      "threshold_backward.grad_input"});
  borrow<kLender>(m, {"clone", "copy_", "empty.memory_format", "empty_like", "zero_", "resize_", "resize_as_sparse_", "_to_dense",
                      "_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr",
                      "_to_sparse_bsc", "select.int", "select_copy.int", "sum"});
  borrow<kLender>(m, {"sparse_dim", "dense_dim", "_nnz", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices"});
  for (const char* name : {"add.Tensor", "add_.Tensor", "mul.Tensor", "mul_.Tensor", "mm", "addmm", "addmv", "sum.dim_IntList"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&compressed_fallback>());
  }
}

}  // namespace torch_npu
