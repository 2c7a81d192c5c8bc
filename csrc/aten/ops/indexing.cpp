// x[indices], x[indices] = values, and operators along one dimension. Masks are converted to positions, so the device gets
// integers only.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_meta.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>
#include <torch/library.h>

#include "aten/machinery/device_check.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/infer.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// Integer positions on the device of `self`. An undefined tensor selects a whole dimension.
std::vector<at::Tensor> positions(const at::Tensor& self, const Indices& indices) {
  at::native::checkIndexTensorTypes(at::IOptTensorListRef(indices), /*allow_int=*/true);
  for (const std::optional<at::Tensor>& index : indices) {
    const bool fits = !index || !index->defined() || index->is_cpu() || index->device() == self.device();
    TORCH_CHECK(fits, "indices should be either on cpu or on the same device as the indexed tensor (", self.device(), ")");
  }
  std::vector<at::Tensor> tensors = at::native::expandTensors(self, at::IOptTensorListRef(indices), /*ensure_same_device=*/true);
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (tensor.device() != self.device()) tensor = tensor.to(self.device());
    if (tensor.scalar_type() != at::kLong) tensor = tensor.to(at::kLong);
  }
  return tensors;
}

Indices as_list(const std::vector<at::Tensor>& tensors) {
  Indices list;
  list.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  return list;
}

// The shape of self[where].
at::DimVector selected_sizes(const at::Tensor& self, const std::vector<at::Tensor>& where) {
  at::DimVector sizes, together;
  size_t first = where.size(), last = 0, count = 0;
  for (size_t dim = 0; dim < where.size(); ++dim) {
    if (!where[dim].defined()) continue;
    TORCH_CHECK_INDEX(at::are_expandable(together, where[dim].sizes()),
                      "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      at::native::shapes_as_str(where));
    together = at::infer_size_dimvector(together, where[dim].sizes());
    first = std::min(first, dim);
    last = dim;
    ++count;
  }
  const size_t front = count == 0 || last - first + 1 == count ? first : 0;
  for (size_t dim = 0; dim < static_cast<size_t>(self.dim()); ++dim) {
    if (dim == front) sizes.append(together.begin(), together.end());
    if (dim >= where.size() || !where[dim].defined()) sizes.push_back(self.size(static_cast<int64_t>(dim)));
  }
  return sizes;
}

// Whether self[indices] selects rows: a dense tensor and one dense tensor of positions. No further checks are needed then.
bool chooses_rows(const at::Tensor& self, const Indices& indices) {
  if (indices.size() != 1 || self.dim() == 0 || self.numel() == 0 || !self.is_contiguous()) return false;
  const std::optional<at::Tensor> rows = indices.get(0);
  return rows && rows->defined() && rows->scalar_type() == at::kLong && rows->device() == self.device() && rows->is_contiguous();
}

at::Tensor index(const at::Tensor& self, const Indices& indices) {
  const DeviceScope scope(self);
  if (chooses_rows(self, indices)) {
    const std::array where{*indices.get(0)};
    at::DimVector sizes(where[0].sizes());
    sizes.append(self.sizes().begin() + 1, self.sizes().end());
    at::Tensor out = empty(sizes, self.dtype());
    if (out.numel() != 0) call::aclnnIndex(self, at::TensorList(where), out);
    return out;
  }
  const std::vector<at::Tensor> where = positions(self, indices);
  const auto run = [&](const at::Tensor& out) { call::aclnnIndex(self, where, out); };
  return compute<at::meta::structured_index_Tensor>(run, self, at::IOptTensorListRef(as_list(where)));
}

at::Tensor& index_out(const at::Tensor& self, const Indices& indices, at::Tensor& out) {
  const DeviceScope scope(self);
  const std::vector<at::Tensor> where = positions(self, indices);
  const auto run = [&](const at::Tensor& result) { call::aclnnIndex(self, where, result); };
  return compute_into<at::meta::structured_index_Tensor, Form::kOut>(out, run, self, at::IOptTensorListRef(as_list(where)));
}

at::Tensor& index_put(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate, bool unsafe) {
  TORCH_CHECK_INDEX(indices.size() <= static_cast<size_t>(self.dim()), "too many indices for tensor of dimension ", self.dim(),
                    " (got ", indices.size(), ")");
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. ",
        "This also applies to advanced indexing e.g. tensor[indices] = tensor");
  }
  const DeviceScope scope(self);
  if (!accumulate) {
    const auto [is_mask, mask] = at::native::canDispatchToMaskedFill(self, indices, values);
    if (is_mask) return self.masked_fill_(mask, values.item());
  }
  const std::vector<at::Tensor> where = positions(self, indices);
  const at::DimVector sizes = selected_sizes(self, where);
  TORCH_CHECK(at::is_expandable_to(values.sizes(), sizes), "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(sizes));
  TORCH_CHECK(self.scalar_type() == values.scalar_type(), "Index put requires the source and destination dtypes match, got ",
              self.scalar_type(), " for the destination and ", values.scalar_type(), " for the source.");
  TORCH_CHECK_NOT_IMPLEMENTED(!accumulate || !c10::isBarebonesUnsignedType(self.scalar_type()),
                              "\"index_put\" not implemented for '", self.scalar_type(), "'");
  for (const at::Tensor& tensor : where) {
    at::assert_no_overlap(self, tensor);
    if (tensor.defined() && tensor.numel() == 0) return self;
  }
  at::assert_no_overlap(self, values);
  call::aclnnIndexPutImpl(self, where, values, accumulate, unsafe);
  return self;
}

at::Tensor& put(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  infer::put(self, index, source, accumulate);
  if (index.numel() == 0) return self;  // a lazy copy stays lazy
  const DeviceScope scope(self);
  call::aclnnInplacePut(self, index, source, accumulate);
  return self;
}

// ---- along one dimension ----

at::Tensor& index_fill(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  infer::index_fill(self, dim, index, value);
  at::maybe_wrap_dim(dim, self.dim());
  const DeviceScope scope(self);
  if (index.is_cpu()) {
    const at::Tensor dense = index.to(at::kLong).contiguous();
    const at::IntArrayRef places(dense.const_data_ptr<int64_t>(), static_cast<size_t>(dense.numel()));
    call::aclnnInplaceIndexFillTensor(self, dim, places, value);
  } else {
    call::aclnnInplaceIndexFill(self, dim, index, value);
  }
  return self;
}

at::Tensor& index_fill_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
              " dimension(s).");
  return self.index_fill_(dim, index, value.item());
}

using IndexCopy = at::meta::structured_index_copy;

auto row_copy(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  return [&self, dim, &index, &source](const at::Tensor& out) {
    if (!out.is_same(self)) call::aclnnInplaceCopy(out, self);
    call::aclnnInplaceIndexCopy(out, dim, index, source);
  };
}

at::Tensor index_copy(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  const DeviceScope scope(self);
  return compute<IndexCopy>(row_copy(self, dim, index, source), self, dim, index, source);
}

template <Form kForm>
at::Tensor& index_copy_into(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                            at::Tensor& out) {
  const DeviceScope scope(self);
  return compute_into<IndexCopy, kForm>(out, row_copy(self, dim, index, source), self, dim, index, source);
}

at::Tensor& index_copy_inplace(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  return index_copy_into<Form::kInplace>(self, dim, index, source, self);
}

// ---- scatter with a reduction ----

int64_t reduction_code(std::string_view name) {
  constexpr std::pair<std::string_view, int64_t> kCodes[] = {{"add", 1},  {"sum", 1},  {"multiply", 2}, {"prod", 2},
                                                             {"amax", 3}, {"amin", 4}, {"mean", 5}};
  for (const auto& [known, code] : kCodes) {
    if (known == name) return code;
  }
  TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", name);
}

void scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src, int64_t reduce,
             const at::Tensor& out) {
  call::aclnnScatter(self, dim, index, src, reduce, out);
}

void scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value, int64_t reduce,
             const at::Tensor& out) {
  call::aclnnScatterValue(self, dim, index, value, reduce, out);
}

// `Source` is a tensor or a number.
template <class Meta, class Source>
at::Tensor scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const Source& source,
                          std::string_view reduce) {
  const DeviceScope scope(self);
  const auto run = [&](const at::Tensor& out) { scatter(self, dim, index, source, reduction_code(reduce), out); };
  return compute<Meta>(run, self, dim, index, source, reduce);
}

template <class Meta, class Source, Form kForm>
at::Tensor& scatter_reduce_into(const at::Tensor& self, int64_t dim, const at::Tensor& index, const Source& source,
                                std::string_view reduce, at::Tensor& out) {
  const DeviceScope scope(self);
  const auto run = [&](const at::Tensor& result) { scatter(self, dim, index, source, reduction_code(reduce), result); };
  return compute_into<Meta, kForm>(out, run, self, dim, index, source, reduce);
}

template <class Meta, class Source>
at::Tensor& scatter_reduce_inplace(at::Tensor& self, int64_t dim, const at::Tensor& index, const Source& source,
                                   std::string_view reduce) {
  return scatter_reduce_into<Meta, Source, Form::kInplace>(self, dim, index, source, reduce, self);
}

using ScatterTensor = at::meta::structured_scatter_reduce;
using ScatterNumber = at::meta::structured_scatter_value_reduce;
using ScatterTwo = at::meta::structured_scatter_reduce_two;

auto two_call(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src, std::string_view reduce,
              bool include_self) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool || reduce != "mean",
                              "\"mean of scattered values\" not implemented for 'Bool'");
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() || (reduce != "amin" && reduce != "amax"), "\"scatter_gather_tensor_cpu_reduce_",
                              reduce, "\" not implemented for '", self.scalar_type(), "'");
  return [&self, dim, &index, &src, code = reduction_code(reduce), include_self](const at::Tensor& out) {
    call::aclnnScatterReduce(self, dim, index, src, code, include_self, out);
  };
}

at::Tensor scatter_two(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                       std::string_view reduce, bool include_self) {
  const DeviceScope scope(self);
  return compute<ScatterTwo>(two_call(self, dim, index, src, reduce, include_self), self, dim, index, src, reduce, include_self);
}

template <Form kForm>
at::Tensor& scatter_two_into(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                             std::string_view reduce, bool include_self, at::Tensor& out) {
  const DeviceScope scope(self);
  return compute_into<ScatterTwo, kForm>(out, two_call(self, dim, index, src, reduce, include_self), self, dim, index, src,
                                         reduce, include_self);
}

at::Tensor& scatter_two_inplace(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                                std::string_view reduce, bool include_self) {
  return scatter_two_into<Form::kInplace>(self, dim, index, src, reduce, include_self, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index.Tensor", TORCH_FN(index));
  m.impl("index.Tensor_out", TORCH_FN(index_out));
  m.impl("_index_put_impl_", TORCH_FN(index_put));
  m.impl("put_", TORCH_FN(DeviceChecked<&put>::call));
  m.impl("index_fill_.int_Scalar", TORCH_FN(index_fill));
  m.impl("index_fill_.int_Tensor", TORCH_FN(index_fill_tensor));
  m.impl("index_copy", TORCH_FN(index_copy));
  m.impl("index_copy.out", TORCH_FN(index_copy_into<Form::kOut>));
  m.impl("index_copy_", TORCH_FN(index_copy_inplace));
  m.impl("scatter.reduce", TORCH_FN((scatter_reduce<ScatterTensor, at::Tensor>)));
  m.impl("scatter.reduce_out", TORCH_FN((scatter_reduce_into<ScatterTensor, at::Tensor, Form::kOut>)));
  m.impl("scatter_.reduce", TORCH_FN((scatter_reduce_inplace<ScatterTensor, at::Tensor>)));
  m.impl("scatter.value_reduce", TORCH_FN((scatter_reduce<ScatterNumber, at::Scalar>)));
  m.impl("scatter.value_reduce_out", TORCH_FN((scatter_reduce_into<ScatterNumber, at::Scalar, Form::kOut>)));
  m.impl("scatter_.value_reduce", TORCH_FN((scatter_reduce_inplace<ScatterNumber, at::Scalar>)));
  m.impl("scatter_reduce.two", TORCH_FN(scatter_two));
  m.impl("scatter_reduce.two_out", TORCH_FN(scatter_two_into<Form::kOut>));
  m.impl("scatter_reduce_.two", TORCH_FN(scatter_two_inplace));
}

}  // namespace torch_npu
