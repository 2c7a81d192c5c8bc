// Shapes of reductions and cumulative sums.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

Outputs<2> along_dim(const char* name, const at::Tensor& self, int64_t dim, bool keepdim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, name);
  Sizes sizes(self.sizes());
  if (self.dim() > 0 && keepdim) sizes[dim] = 1;
  if (self.dim() > 0 && !keepdim) sizes.erase(sizes.begin() + dim);
  return {sized(sizes, self.options()), sized(sizes, self.options().dtype(at::kLong))};
}

Outputs<2> kthvalue(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  Outputs<2> outputs = along_dim("kthvalue()", self, dim, keepdim);
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t count = self.dim() > 0 ? self.size(dim) : 1;
  TORCH_CHECK(k >= 1 && k <= count, "kthvalue(): selected number k out of range for dimension ", dim);
  outputs[0].apart = {self};
  return outputs;
}

Outputs<1> histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  TORCH_CHECK(bins > 0, "torch.histc(): bins must be > 0, but got ", bins);
  const double first = min.toDouble(), last = max.toDouble();
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "torch.histc: range of [", first, ", ", last, "] is not finite");
  TORCH_CHECK(first <= last, "torch.histc: max must be larger than min");
  return {sized({bins}, self.options())};
}

Outputs<1> prod(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const at::ScalarType own = self.scalar_type();
  return {sized({}, self.options().dtype(dtype.value_or(at::isIntegralType(own, true) ? at::kLong : own)))};
}

Outputs<1> nansum(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(!self.is_complex(), "nansum does not support complex inputs");
  const at::ScalarType own = self.scalar_type();
  const auto mask = at::native::make_dim_mask(dims, self.dim());
  Output output = sized(at::native::shape_from_dim_mask(self, mask, keepdim),
                        self.options().dtype(dtype.value_or(at::isIntegralType(own, true) ? at::kLong : own)));
  output.casts = !dtype.has_value();
  return {output};
}

Outputs<1> logcumsumexp(const at::Tensor& self, int64_t dim) {
  at::maybe_wrap_dim(dim, self.dim());
  return dense_like_self(self);
}

void cumulative(const at::Tensor& /*self*/, int64_t /*dim*/, std::optional<at::ScalarType> dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(dtype != at::kBool, "\"cumulative result\" not implemented for 'Bool'");
}

void renorm(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& /*maxnorm*/) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ", self.scalar_type());
  if (self.numel() > 0 || p.isComplex() || !std::isinf(p.to<double>())) return;
  const int64_t kept = at::maybe_wrap_dim(dim, self.dim());
  for (int64_t axis = 0; axis < self.dim(); ++axis) {
    TORCH_CHECK(axis == kept || self.size(axis) > 0, "linalg.vector_norm cannot compute the inf norm on the dimension ", axis,
                "because this dimension is empty and the operation does not have an identity");
  }
}

}  // namespace torch_npu::infer
