// Sparse COO tensors. Coordinates and values are dense tensors on the device, so most of ATen's CPU kernels, which only call
// other operators, are registered for npu too. This file replaces those that loop over memory. `places` are linear indices: the
// position of an element in a row-major dense tensor. All other operators are fallbacks.
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/_to_sparse_csc_native.h>
#include <ATen/ops/_to_sparse_csr_native.h>
#include <ATen/ops/_to_sparse_native.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sparse_mask_ops.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/borrowed_kernels.h"
#include "aten/machinery/device_scope.h"

// ATen declares it in a header that is not installed.
namespace at::native {
DECLARE_DISPATCH(Tensor (*)(const Tensor& indices, IntArrayRef size), flatten_indices_stub)
}

namespace torch_npu {
namespace {

using at::sparse::alias_into_sparse;

constexpr c10::DispatchKeySet kCpuKernels(c10::DispatchKey::SparseCPU);

// ---- coordinates ----

at::IntArrayRef sparse_sizes(const at::Tensor& self) { return self.sizes().slice(0, self.sparse_dim()); }

at::Tensor places(const at::Tensor& self) { return at::sparse::flatten_indices(self._indices(), self.sizes()); }

// The stub of at::sparse::flatten_indices. Only the sizes of the sparse dimensions are used.
at::Tensor flatten(const at::Tensor& indices, at::IntArrayRef sizes) {
  at::Tensor places = at::zeros({indices.size(1)}, indices.options().dtype(at::kLong));
  for (int64_t dim = 0; dim < indices.size(0); ++dim) places.mul_(sizes[dim]).add_(indices[dim]);
  return places;
}

at::Tensor coordinates(at::Tensor places, at::IntArrayRef sizes) {
  if (sizes.empty()) return at::zeros({0, places.numel()}, places.options());
  std::vector<at::Tensor> rows(sizes.size());
  for (size_t dim = sizes.size(); dim-- > 0;) {
    rows[dim] = at::remainder(places, sizes[dim]);
    places = at::div(places, sizes[dim], "floor");
  }
  return at::stack(rows);
}

struct Matches {
  at::Tensor found;  // for each wanted place, whether it exists
  at::Tensor where;  // its position; any valid one if it does not exist
};

// `sorted` must not be empty.
Matches find(const at::Tensor& wanted, const at::Tensor& sorted) {
  const at::Tensor where = at::searchsorted(sorted, wanted).clamp_max_(sorted.numel() - 1);
  return {sorted.index_select(0, where).eq(wanted), where};
}

at::Tensor make(const at::Tensor& like, at::IntArrayRef sizes, const at::Tensor& indices, const at::Tensor& values,
                bool coalesced) {
  const int64_t sparse_dim = indices.size(0);
  return at::_sparse_coo_tensor_with_dims_and_tensors(sparse_dim, static_cast<int64_t>(sizes.size()) - sparse_dim, sizes, indices,
                                                      values, like.options().dtype(values.scalar_type()).layout(at::kSparse),
                                                      coalesced);
}

// Replaces the content of `out`, which may be an operand, by the result.
at::Tensor& store_sparse(at::Tensor& out, const at::Tensor& result) {
  TORCH_CHECK(out.is_sparse(), "the result is sparse, but out= is ", out.layout());
  TORCH_CHECK(at::canCast(result.scalar_type(), out.scalar_type()), "result type ", result.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  out.sparse_resize_and_clear_(result.sizes(), result.sparse_dim(), result.dense_dim());
  alias_into_sparse(out, result._indices(), result._values().to(out.scalar_type()));
  return out._coalesced_(result.is_coalesced());
}

at::Tensor coalesce(const at::Tensor& self) {
  const DeviceScope scope(self);
  if (self._nnz() < 2) {
    at::Tensor copy = self.clone();
    return copy._coalesced_(true);
  }
  const auto [unique, position, counts] = at::_unique2(places(self), /*sorted=*/true, /*return_inverse=*/true);
  const at::Tensor values = self._values();
  at::DimVector sizes(values.sizes());
  sizes[0] = unique.numel();
  const at::Tensor sums = at::zeros(sizes, values.options()).index_add_(0, position, values);
  return make(self, self.sizes(), coordinates(unique, sparse_sizes(self)), sums, /*coalesced=*/true);
}

// ---- sums ----

at::Tensor& add_to_dense(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(!out.is_sparse(), "add: the result of a dense and a sparse tensor is dense, but out= is sparse");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ",
              self.sizes(), " while other has size ", other.sizes(), " (FYI: dense-sparse addition does not currently support ",
              "broadcasting)");
  const at::ScalarType dtype = at::result_type(self, other);
  TORCH_CHECK(at::canCast(dtype, out.scalar_type()), "Can't convert result type ", dtype, " to output ", out.scalar_type(),
              " in add operation");
  const at::Tensor sum = out.is_same(self) && out.scalar_type() == dtype && out.is_contiguous()
                             ? out
                             : self.to(dtype, false, /*copy=*/true).contiguous();
  if (other._nnz() > 0 && other.numel() > 0) {
    const int64_t rows = c10::multiply_integers(sparse_sizes(other));
    sum.view({rows, -1}).index_add_(0, places(other), other._values().to(dtype).reshape({other._nnz(), -1}), alpha);
  }
  return sum.is_same(out) ? out : store(sum, out);
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  const DeviceScope scope(self);
  if (!self.is_sparse()) return add_to_dense(self, other, alpha, out);
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  TORCH_CHECK(self._nnz() == 0 || other._nnz() == 0 || at::sparse::is_same_density(self, other),
              "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
              " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  const at::ScalarType dtype = at::result_type(self, other);
  const at::Tensor scaled = other._values().to(dtype).mul(alpha);
  if (self._nnz() == 0) return store_sparse(out, make(other, other.sizes(), other._indices(), scaled, other.is_coalesced()));
  if (other._nnz() == 0) {
    return store_sparse(out, make(self, self.sizes(), self._indices().clone(), self._values().to(dtype, false, /*copy=*/true),
                                  self.is_coalesced()));
  }
  const at::Tensor both = make(self, self.sizes(), at::cat({self._indices(), other._indices()}, 1),
                               at::cat({self._values().to(dtype), scaled}), /*coalesced=*/false);
  return store_sparse(out, self.is_coalesced() && other.is_coalesced() ? coalesce(both) : both);
}

// ---- elementwise products ----

at::Tensor& mul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const DeviceScope scope(self, other);
  if (!self.is_sparse() || !other.is_sparse() || self.dim() == 0 || other.dim() == 0) {
    return at::_ops::mul_out::redispatch(kCpuKernels, self, other, out);
  }
  TORCH_CHECK(sparse_sizes(self) == sparse_sizes(other),
              "mul: the sparse dimensions of 'self' and 'other' must be of one size, but ", sparse_sizes(self),
              " != ", sparse_sizes(other));
  const at::Tensor a = self.coalesce(), b = other.coalesce();
  const at::ScalarType dtype = at::result_type(self, other);
  at::Tensor mine = at::zeros({0}, a._indices().options()), theirs = mine;
  if (a._nnz() > 0 && b._nnz() > 0) {
    const Matches matches = find(places(a), places(b));
    mine = matches.found.nonzero().squeeze(1);
    theirs = matches.where.index_select(0, mine);
  }
  const at::Tensor values = a._values().to(dtype).index_select(0, mine).mul(b._values().to(dtype).index_select(0, theirs));
  at::DimVector sizes(sparse_sizes(self));
  for (const int64_t size : values.sizes().slice(1)) sizes.push_back(size);
  return store_sparse(out,
                      make(self, sizes, a._indices().index_select(1, mine), values, self.is_coalesced() && other.is_coalesced()));
}

// The elements of `self` at the coordinates of `mask`; zero where `self` has none.
at::Tensor sparse_mask(const at::Tensor& self, const at::Tensor& mask) {
  const DeviceScope scope(self, mask);
  if (!self.is_sparse()) return at::_ops::sparse_mask::redispatch(kCpuKernels, self, mask);
  TORCH_CHECK(mask.is_sparse(), "sparse_mask: the mask of a sparse tensor is sparse, but its layout is ", mask.layout());
  TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ", self.sizes(),
              " but mask has size ", mask.sizes());
  TORCH_CHECK(at::sparse::is_same_density(self, mask), "sparse_mask(): operands differ in their sparse dimensions");
  const at::Tensor full = self.coalesce(), values = full._values();
  at::DimVector sizes(values.sizes());
  sizes[0] = mask._nnz();
  at::Tensor chosen = at::zeros(sizes, values.options());
  if (full._nnz() > 0 && mask._nnz() > 0) {
    const Matches matches = find(places(mask), places(full));
    at::DimVector along(values.dim(), 1);
    along[0] = -1;
    chosen = at::where(matches.found.view(along), values.index_select(0, matches.where), chosen);
  }
  return make(self, self.sizes(), mask._indices().clone(), chosen, mask.is_coalesced());
}

// ---- matrix products ----

// Each element of the sparse matrix adds a multiple of a row of `mat2` to a row of the result.
at::Tensor multiply(const at::Tensor& indices, const at::Tensor& values, int64_t rows, const at::Tensor& mat2) {
  const at::Tensor result = at::zeros({rows, mat2.size(1)}, mat2.options());
  if (values.numel() == 0 || mat2.numel() == 0) return result;
  return result.index_add_(0, indices[0], mat2.index_select(0, indices[1]).mul_(values.unsqueeze(1)));
}

at::Tensor add_product(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                       const at::Scalar& alpha) {
  TORCH_CHECK(mat1.is_sparse() && !mat2.is_sparse() && !self.is_sparse(),
              "addmm: expected a sparse 'mat1', a dense 'mat2' and a ", "dense 'self', but their layouts are ", mat1.layout(),
              ", ", mat2.layout(), " and ", self.layout());
  TORCH_CHECK(mat1.sparse_dim() == 2, "addmm: matrices expected, got ", mat1.sparse_dim(), "D tensor");
  TORCH_CHECK(mat1.dense_dim() == 0, "addmm: scalar values expected, got ", mat1.dense_dim(), "D values");
  TORCH_CHECK(mat2.dim() == 2, "addmm: matrices expected, got ", mat2.dim(), "D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "addmm: Argument #3 (dense): Expected dim 0 size ", mat1.size(1), ", got ",
              mat2.size(0));
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(), "expected scalar type ", mat1.scalar_type(), " but found ",
              mat2.scalar_type());
  const DeviceScope scope(mat1);
  at::Tensor product = multiply(mat1._indices(), mat1._values(), mat1.size(0), mat2);
  if (!alpha.equal(1)) product.mul_(alpha);
  const at::Tensor bias = self.expand_as(product);
  return beta.equal(0) ? product : product.add_(bias, beta);
}

at::Tensor& add_product_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                            const at::Scalar& alpha, at::Tensor& out) {
  const at::Tensor result = add_product(self, mat1, mat2, beta, alpha);
  TORCH_CHECK(result.scalar_type() == out.scalar_type(), "addmm: expected out= of type ", result.scalar_type(), ", got ",
              out.scalar_type());
  return store(result, out);
}

at::Tensor& add_product_(at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha) {
  return self.copy_(add_product(self, mat1, mat2, beta, alpha));
}

// Computed as one product with a block-diagonal sparse matrix.
at::Tensor multiply_batches(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(self.is_sparse() && !mat2.is_sparse(), "bmm_sparse: expected a sparse and a dense tensor");
  TORCH_CHECK(self.sparse_dim() == 3 && self.dense_dim() == 0,
              "bmm_sparse: Tensor 'self' must have 3 sparse dims and no dense one");
  TORCH_CHECK(mat2.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", mat2.dim());
  TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  const DeviceScope scope(self);
  const int64_t batches = self.size(0), rows = self.size(1), inner = self.size(2);
  const at::Tensor indices = self._indices();
  const at::Tensor diagonal = at::stack({indices[0].mul(rows).add_(indices[1]), indices[0].mul(inner).add_(indices[2])});
  return multiply(diagonal, self._values(), batches * rows, mat2.reshape({batches * inner, mat2.size(2)}))
      .view({batches, rows, mat2.size(2)});
}

at::Tensor& multiply_batches_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return store(multiply_batches(self, mat2), out);
}

// ---- reductions ----

// Each element gets the gradient at its coordinates in the dimensions that were not summed.
at::Tensor sum_backward(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef dims) {
  const DeviceScope scope(input);
  const at::Tensor self = input.coalesce();
  const auto summed = at::dim_list_to_bitset(dims, self.dim());
  const int64_t sparse_dim = self.sparse_dim();
  const at::Tensor values = self._values();
  std::vector<int64_t> kept;
  at::DimVector broadcast{-1}, kept_sizes;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (dim >= sparse_dim) broadcast.push_back(summed[dim] ? 1 : self.size(dim));
    if (dim < sparse_dim && !summed[dim]) kept.push_back(dim), kept_sizes.push_back(self.size(dim));
  }
  if (kept.empty()) {
    TORCH_CHECK(!grad.is_sparse(), "_sparse_sum_backward: the gradient of a sum over all sparse dimensions is dense");
    broadcast[0] = 1;
    return make(self, self.sizes(), self._indices().clone(), grad.reshape(broadcast).expand_as(values).clone(),
                /*coalesced=*/true);
  }
  TORCH_CHECK(grad.is_sparse(), "_sparse_sum_backward: the gradient is expected to be sparse");
  const at::Tensor given = grad.coalesce();
  at::Tensor chosen = at::zeros(values.sizes(), grad.options().layout(at::kStrided));
  if (given._nnz() > 0 && self._nnz() > 0) {
    const at::Tensor wanted = at::sparse::flatten_indices_by_dims(self._indices(), self.sizes(), kept);
    const Matches matches = find(wanted, places(given));
    at::DimVector along(values.dim(), 1);
    along[0] = -1;
    chosen = at::where(matches.found.view(along), given._values().index_select(0, matches.where).reshape(broadcast), chosen);
  }
  return make(self, self.sizes(), self._indices().clone(), chosen.contiguous(), /*coalesced=*/true);
}

// The maximum of all elements, including zeros that are not stored.
at::Tensor max(const at::Tensor& self) {
  const DeviceScope scope(self);
  const at::Tensor full = self.coalesce();
  if (full._values().numel() == full.numel()) return full._values().max();
  TORCH_CHECK(full.numel() > 0,
              "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim.");
  if (full._values().numel() == 0) return at::zeros({}, full._values().options());
  return full._values().max().clamp_min_(0);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  constexpr auto kLender = c10::DispatchKey::SparseCPU;
  borrow_unary<kLender>(
      m, {"abs", "asin",    "asinh", "atan", "atanh", "ceil", "deg2rad", "erf",  "erfinv", "expm1", "floor", "frac",      "log1p",
          "neg", "rad2deg", "round", "sgn",  "sign",  "sin",  "sinh",    "sqrt", "tan",    "tanh",  "trunc", "nan_to_num"});
  borrow<kLender>(m, {"relu", "relu_", "isnan", "isinf", "isposinf", "isposinf.out", "isneginf", "isneginf.out", "signbit",
                      "signbit.out", "conj_physical.out", "pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "any",
                      "threshold_backward", "threshold_backward.grad_input"});
  borrow<kLender>(m, {"add.Tensor", "add_.Tensor", "sub.Tensor", "sub_.Tensor", "sub.out", "mul.Tensor", "mul_.Tensor",
                      "div.Tensor", "div_.Tensor", "div.out", "div.Tensor_mode", "div_.Tensor_mode", "div.out_mode",
                      "floor_divide", "floor_divide_.Tensor", "floor_divide.out", "mm", "mm.out", "mv"});
  borrow<kLender>(m, {"sum", "sum.dim_IntList", "native_norm", "native_norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dim_dtype",
                      "norm.ScalarOpt_dim"});
  borrow<kLender>(m, {"cat", "permute", "unsqueeze", "narrow_copy", "view_as_real", "view_as_complex", "_sparse_broadcast_to"});
  borrow<kLender>(m, {"clone", "copy_", "copy_sparse_to_sparse_", "empty.memory_format", "empty_like", "zeros.out", "zero_",
                      "resize_as_sparse_", "sparse_resize_", "sparse_resize_and_clear_", "_to_dense", "_to_sparse",
                      "_to_sparse.sparse_dim", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc",
                      "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors"});
  borrow<kLender>(m, {"sparse_dim", "_dimI", "dense_dim", "_dimV", "_nnz", "is_coalesced", "_coalesced_", "indices", "_indices",
                      "values", "_values"});
  m.impl("_coalesce", TORCH_FN(coalesce));
  m.impl("add.out", TORCH_FN(add_out));
  m.impl("mul.out", TORCH_FN(mul_out));
  m.impl("sparse_mask", TORCH_FN(sparse_mask));
  m.impl("addmm", TORCH_FN(add_product));
  m.impl("addmm.out", TORCH_FN(add_product_out));
  m.impl("addmm_", TORCH_FN(add_product_));
  m.impl("bmm", TORCH_FN(multiply_batches));
  m.impl("bmm.out", TORCH_FN(multiply_batches_out));
  m.impl("_sparse_sum_backward", TORCH_FN(sum_backward));
  m.impl("max", TORCH_FN(max));
}

using OptionalInt = std::optional<int64_t>;

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_to_sparse",
         TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&, std::optional<at::Layout>, at::OptionalIntArrayRef, OptionalInt)>(
             at::native::dense_to_sparse)));
  m.impl("_to_sparse.sparse_dim", TORCH_FN(static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(at::native::dense_to_sparse)));
  m.impl("_to_sparse_csr", TORCH_FN(at::native::dense_to_sparse_csr));
  m.impl("_to_sparse_csc", TORCH_FN(at::native::dense_to_sparse_csc));
  m.impl("_to_sparse_bsr", TORCH_FN(at::native::dense_to_sparse_bsr));
  m.impl("_to_sparse_bsc", TORCH_FN(at::native::dense_to_sparse_bsc));
}

}  // namespace torch_npu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &torch_npu::flatten)
}
