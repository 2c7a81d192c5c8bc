#include <ATen/ops/addr.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/median.h>
#include <ATen/ops/nanmedian.h>

#include "kernels.h"

namespace softnpu::ops::kernels {

// An empty list of dimensions with an output of one element means all dimensions.
void all(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, at::Tensor& out) {
  if (dim.empty() && out.dim() == 0) {
    at::all_out(out, self);
    return;
  }
  at::all_out(out, self, at::OptionalIntArrayRef(dim), keepdim);
}

void any(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, at::Tensor& out) {
  if (dim.empty() && out.dim() == 0) {
    at::any_out(out, self);
    return;
  }
  at::any_out(out, self, at::OptionalIntArrayRef(dim), keepdim);
}

// ATen's kernels read outside of a tensor whose elements share memory.
void median(const at::Tensor& self, at::Tensor& valuesOut) { valuesOut.copy_(at::median(self.contiguous())); }

void nan_median(const at::Tensor& self, at::Tensor& out) { out.copy_(at::nanmedian(self.contiguous())); }

void median_dim(const at::Tensor& self, int64_t dim, bool keepDim, at::Tensor& valuesOut, at::Tensor& indicesOut) {
  at::median_out(valuesOut, indicesOut, self.contiguous(), dim, keepDim);
}

void nan_median_dim(const at::Tensor& self, int64_t dim, bool keepDim, at::Tensor& valuesOut, at::Tensor& indicesOut) {
  at::nanmedian_out(valuesOut, indicesOut, self.contiguous(), dim, keepDim);
}

void cumprod(const at::Tensor& input, const at::Scalar& dim, at::ScalarType dtype, at::Tensor& out) {
  at::cumprod_out(out, input, dim.toLong(), dtype);
}

void addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const std::optional<at::Scalar>& betaOptional,
          const std::optional<at::Scalar>& alphaOptional, at::Tensor& out) {
  at::addr_out(out, self, vec1, vec2, betaOptional.value_or(1), alphaOptional.value_or(1));
}

void addr_(at::Tensor& selfRef, const at::Tensor& vec1, const at::Tensor& vec2, const std::optional<at::Scalar>& betaOptional,
           const std::optional<at::Scalar>& alphaOptional) {
  selfRef.addr_(vec1, vec2, betaOptional.value_or(1), alphaOptional.value_or(1));
}

}  // namespace softnpu::ops::kernels
