// Checks and shapes of operators that take an index or a mask.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

namespace {

bool is_index(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt; }

}  // namespace

Outputs<1> bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool /*right*/) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
  TORCH_CHECK(boundaries.device() == self.device(), "torch.searchsorted(): boundaries and input value tensors ",
              "should have same device type, but got boundaries tensor device type ", boundaries.device(), " and input value ",
              "tensor device type ", self.device());
  return {sized(self.sizes(), self.options().dtype(out_int32 ? at::kInt : at::kLong))};
}

void masked_fill(const at::Tensor& self, const at::Tensor& mask) {
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. ",
        "This also applies to advanced indexing e.g. tensor[mask] = scalar");
  }
  at::assert_no_partial_overlap(self, mask);
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  check_inplace_broadcast(self, mask);
}

void masked_fill(const at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  masked_fill(self, mask);
  check_real(value, self.scalar_type());
}

void masked_fill(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
              " dimension(s).");
  if (value.is_complex()) return masked_fill(self, mask, at::Scalar(c10::complex<double>(0, 1)));
  masked_fill(self, mask);
}

void masked_scatter(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "masked_scatter: expected self and source to have same dtypes but got ",
              self.scalar_type(), " and ", source.scalar_type());
  (void)mask.expand(self.sizes());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
}

void index_fill(const at::Tensor& self, int64_t /*dim*/, const at::Tensor& index, const at::Scalar& value) {
  TORCH_CHECK_INDEX(is_index(index), "index_fill_(): Expected dtype int64 for index.");
  at::assert_no_overlap(self, index);
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. ",
        "This also applies to advanced indexing e.g. tensor[index, :, :] = scalar");
  }
  TORCH_CHECK(self.is_complex() || !value.isComplex(),
              "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  TORCH_CHECK_INDEX(index.dim() <= 1, "Index has to be a vector/scalar");
}

void put(const at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  if (!accumulate) at::globalContext().alertNotDeterministic("put_");
  TORCH_CHECK(is_index(index), "put_(): Expected a long tensor for index, but got ", index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "put_(): self and source expected to have the same dtype, but got ",
              "self.dtype = ", self.scalar_type(), " and source.dtype = ", source.scalar_type());
  TORCH_CHECK_INDEX(source.numel() == index.numel(),
                    "put_(): Expected source and index to have the same number of elements, but got ",
                    "source.numel() = ", source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "put_(): Tried to put elements into an empty tensor");
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
}

Outputs<1> take(const at::Tensor& self, const at::Tensor& index) {
  TORCH_CHECK(is_index(index), "take(): Expected a long tensor for index, but got ", index.scalar_type());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  Outputs<1> outputs{sized(index.sizes(), self.options())};
  outputs[0].apart = {self, index};
  return outputs;
}

Outputs<1> index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(self.dim() > 0 || index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ", index.numel(),
              " value(s)");
  TORCH_CHECK(self.dim() == 0 || self.size(dim) > 0 || index.numel() == 0,
              "index_select(): self indexing axis dim should be positive");
  Output output = sized(self.sizes(), self.options());
  if (self.dim() > 0) output.sizes[dim] = index.numel();
  return {output};
}

Outputs<1> unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t /*dim*/, int64_t size, int64_t step) {
  TORCH_CHECK_VALUE(step > 0, "step is ", step, " but must be > 0");
  TORCH_CHECK(size >= 0, "size is ", size, " but must be >= 0");
  return {sized(input_sizes, grad.options())};
}

void embedding_renorm(const at::Tensor& self, const at::Tensor& /*indices*/, double /*max_norm*/, double /*norm_type*/) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "norm(): input dtype should be either floating point or complex. Got ", self.scalar_type(), " instead.");
}

}  // namespace torch_npu::infer
