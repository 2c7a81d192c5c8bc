// Operators whose result size depends on data; they wait for the device. The result is allocated for the worst case, then its
// storage is cut to its size. A result that is much smaller than its storage is copied.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "core/stream/stream.h"
#include "core/stream/sync_debug.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

// The device function waits for its inputs and cannot be interrupted; this wait can.
void wait_for_inputs(const char* op) {
  report_sync(op, "only the device knows the size of its result");
  getCurrentNPUStream().synchronize();
}

// Cuts the storage of a contiguous result to its size: nested tensors and torch.save use the whole storage.
at::Tensor compact(at::Tensor tensor) {
  constexpr size_t kNotWorthIt = 4096;
  const size_t reserved = tensor.storage().nbytes();
  if (reserved > kNotWorthIt && tensor.nbytes() < reserved / 2) return tensor.clone();
  tensor.storage().set_nbytes(tensor.nbytes());
  return tensor;
}

at::Tensor nonzero(const at::Tensor& self) {
  const DeviceScope scope(self);
  const at::Tensor out = empty({self.numel(), self.dim()}, at::kLong);
  if (self.numel() > 0) {
    wait_for_inputs("aten::nonzero");
    call::aclnnNonzero(self, out);
  }
  const at::Tensor columns = empty({out.size(1), out.size(0)}, at::kLong);  // column-major, as on the CPU
  columns.copy_(out.t());
  return columns.t();
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  TORCH_CHECK(self.device() == out.device(), "expected self and out to be on the same device, but got out on ", out.device(),
              " and self on ", self.device());
  const at::Tensor result = nonzero(self);
  if (at::native::resize_output(out, result.sizes())) out.as_strided_(result.sizes(), result.strides());
  return out.copy_(result);
}

// The caller gives the size, so there is no wait.
at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero_static: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  TORCH_CHECK(self.device() == out.device(), "expected self and out to be on the same device, but got out on ", out.device(),
              " and self on ", self.device());
  const DeviceScope scope(self);
  at::native::resize_output(out, {size, self.dim()});
  call::aclnnSoftNonzeroStatic(self, size, fill_value, out);
  return out;
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  const DeviceScope scope(self);
  at::Tensor out = empty({0}, at::kLong);
  return nonzero_static_out(self, size, fill_value, out);
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.device() == mask.device(), "Expected all tensors to be on the same device, but found at least two devices, ",
              self.device(), " and ", mask.device(), "!");
  const DeviceScope scope(self);
  const int64_t most = c10::multiply_integers(at::infer_size_dimvector(self.sizes(), mask.sizes()));
  const at::Tensor out = empty({most}, self.dtype());
  if (most > 0) {
    wait_for_inputs("aten::masked_select");
    call::aclnnMaskedSelect(self, mask, out);
  }
  return compact(out);
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const at::Tensor found = masked_select(self, mask);
  resize_output(out, found.sizes(), {}, found.options());
  return out.copy_(found);
}

// Unique elements. `find` fills values, and inverse and counts if they are requested.
template <class Find>
std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_elements(const char* op, const at::Tensor& self, bool return_inverse,
                                                               bool return_counts, Find find) {
  const DeviceScope scope(self);
  const at::Tensor values = empty({self.numel()}, self.dtype());
  const at::Tensor inverse = return_inverse ? empty(self.sizes(), at::kLong) : empty({0}, at::kLong);
  const at::Tensor counts = empty({return_counts ? self.numel() : 0}, at::kLong);
  if (self.numel() > 0) {
    wait_for_inputs(op);
    find(values, inverse, counts);
  }
  return {compact(values), inverse, compact(counts)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique2(const at::Tensor& self, bool sorted, bool return_inverse,
                                                       bool return_counts) {
  const auto find = [&](const at::Tensor& values, const at::Tensor& inverse, const at::Tensor& counts) {
    call::aclnnUnique2(self, sorted, return_inverse, return_counts, values, inverse, counts);
  };
  return unique_elements("aten::_unique2", self, return_inverse, return_counts, find);
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool sorted, bool return_inverse) {
  const DeviceScope scope(self);
  const at::Tensor values = empty({self.numel()}, self.dtype());
  const at::Tensor inverse = return_inverse ? empty(self.sizes(), at::kLong) : empty({0}, at::kLong);
  if (self.numel() > 0) {
    wait_for_inputs("aten::_unique");
    call::aclnnUnique(self, sorted, return_inverse, values, inverse);
  }
  return {compact(values), inverse};
}

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Unique slices along `dim`: calls run(moved, values, inverse, counts) with `dim` moved to the front. As on the CPU, all three
// results are always computed.
template <class Run>
ThreeTensors unique_slices(const char* op, const at::Tensor& self, int64_t dim, Run run) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const auto empty_dims = std::count(self.sizes().begin(), self.sizes().end(), 0);
  const int64_t slices = self.dim() == 0 ? 1 : self.size(dim);
  TORCH_CHECK(slices > 0 || empty_dims == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
  TORCH_CHECK(slices == 0 || empty_dims == 0,
              "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const DeviceScope scope(self);
  const at::Tensor moved = self.movedim(dim, 0), values = empty(moved.sizes(), self.dtype());
  const at::Tensor inverse = empty({slices}, at::kLong), counts = empty({slices}, at::kLong);
  if (slices > 0) {
    wait_for_inputs(op);
    run(moved, values, inverse, counts);
  }
  return {compact(values).movedim(0, dim), inverse, compact(counts)};
}

ThreeTensors unique_dim(const at::Tensor& self, int64_t dim, bool sorted, bool /*return_inverse*/, bool /*return_counts*/) {
  const auto run = [&](const at::Tensor& moved, const at::Tensor& values, const at::Tensor& inverse, const at::Tensor& counts) {
    call::aclnnUniqueDim(moved, sorted, /*returnInverse=*/true, /*dim=*/0, values, inverse, counts);
  };
  return unique_slices("aten::unique_dim", self, dim, run);
}

ThreeTensors unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool /*return_inverse*/, bool /*return_counts*/) {
  const auto run = [&](const at::Tensor& moved, const at::Tensor& values, const at::Tensor& inverse, const at::Tensor& counts) {
    call::aclnnUniqueConsecutive(moved, /*returnInverse=*/true, /*returnCounts=*/true, /*dim=*/0, values, inverse, counts);
  };
  return unique_slices("aten::unique_dim_consecutive", self, dim, run);
}

ThreeTensors unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  if (dim.has_value()) return unique_dim_consecutive(self, *dim, return_inverse, return_counts);
  const auto find = [&](const at::Tensor& values, const at::Tensor& inverse, const at::Tensor& counts) {
    call::aclnnSoftUniqueConsecutive(self, return_inverse, return_counts, values, inverse, counts);
  };
  return unique_elements("aten::unique_consecutive", self, return_inverse, return_counts, find);
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isIntegralType(self.scalar_type(), false), "\"bincount_cpu\" not implemented for '",
                              self.scalar_type(), "'");
  const bool weighted = is_given(weights);
  TORCH_CHECK(!weighted || weights->sizes() == self.sizes(), "weights should be 1-d and have the same length as input");
  const DeviceScope scope(self);
  if (self.numel() == 0) return empty({minlength}, at::kLong).zero_();
  const auto [smallest, largest] = at::aminmax(self);
  TORCH_CHECK(smallest.item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(minlength, largest.item<int64_t>() + 1);
  const at::ScalarType dtype = !weighted ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  at::Tensor out = empty({bins}, dtype);
  call::aclnnBincount(self, weights, minlength, out);
  return out;
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt, "repeats has to be Long or Int tensor");
  const DeviceScope scope(repeats);
  const int64_t size = output_size.has_value() ? *output_size : repeats.sum().item<int64_t>();
  at::Tensor out = empty({size}, repeats.dtype());
  call::aclnnRepeatInterleaveTensor(repeats, size, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(nonzero));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("nonzero_static", TORCH_FN(nonzero_static));
  m.impl("nonzero_static.out", TORCH_FN(nonzero_static_out));
  m.impl("masked_select", TORCH_FN(masked_select));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("_unique", TORCH_FN(unique));
  m.impl("unique_dim", TORCH_FN(unique_dim));
  m.impl("unique_dim_consecutive", TORCH_FN(unique_dim_consecutive));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
  m.impl("bincount", TORCH_FN(bincount));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
}

}  // namespace torch_npu
