#include <ATen/ops/_index_put_impl.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_reduce.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_reduce.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/take.h>
#include <ATen/ops/tensor.h>

#include "kernels.h"
#include "ops/kernels/bounds.h"

namespace softnpu::ops::kernels {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// An absent index and an index without elements take the whole dimension. Where an index has no elements, the result is empty, or
// the caller writes nothing.
Indices whole_dimensions(const Indices& indices) {
  Indices result;
  result.reserve(indices.size());
  for (const std::optional<at::Tensor>& index : indices) {
    const bool given = index && index->defined() && index->numel() != 0;
    result.push_back(given ? index : std::nullopt);
  }
  return result;
}

bool any_given(const Indices& indices) {
  for (const std::optional<at::Tensor>& index : indices) {
    if (index) return true;
  }
  return false;
}

// The reductions of aclnnScatter.
enum Reduction : int64_t { kReplace, kAdd, kMultiply, kMaximum, kMinimum, kMean };

void scatter_into(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, int64_t reduce) {
  if (reduce == kReplace) {
    self.scatter_(dim, index, source);
    return;
  }
  TORCH_CHECK(reduce == kAdd || reduce == kMultiply, "reduce has to be 0 (none), 1 (add) or 2 (multiply), it is ", reduce);
  self.scatter_(dim, index, source, reduce == kAdd ? "add" : "multiply");
}

void scatter_value_into(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value, int64_t reduce) {
  if (reduce == kReplace) {
    self.scatter_(dim, index, value);
    return;
  }
  TORCH_CHECK(reduce == kAdd || reduce == kMultiply, "reduce has to be 0 (none), 1 (add) or 2 (multiply), it is ", reduce);
  self.scatter_(dim, index, value, reduce == kAdd ? "add" : "multiply");
}

std::string_view reduction_name(int64_t reduce) {
  switch (reduce) {
    case kAdd:
      return "sum";
    case kMultiply:
      return "prod";
    case kMaximum:
      return "amax";
    case kMinimum:
      return "amin";
    case kMean:
      return "mean";
    default:
      TORCH_CHECK(false, "reduce has to be 1 (sum), 2 (prod), 3 (amax), 4 (amin) or 5 (mean), it is ", reduce);
  }
}

// The output may be the input.
void begin_from(const at::Tensor& self, at::Tensor& out) {
  if (self.data_ptr() != out.data_ptr()) out.copy_(self);
}

std::optional<std::string_view> side(bool right) { return right ? "right" : "left"; }

}  // namespace

void index(const at::Tensor& self, const Indices& indices, at::Tensor& out) {
  if (out.numel() == 0) return;
  if (indices.size() == 1) {
    const std::optional<at::Tensor> rows = indices[0];
    if (rows && rows->defined() && take_rows(self, *rows, /*from_end=*/true, out)) return;
  }
  const Indices given = whole_dimensions(indices);
  if (!any_given(given)) {
    out.copy_(self);
    return;
  }
  at::index_out(out, self, given);
}

void index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
  // ATen refuses unsigned integers of several bytes.
  const bool is_offered = !c10::isBarebonesUnsignedType(self.scalar_type());
  if (dim == 0 && is_offered && take_rows(self, index, /*from_end=*/false, out)) return;
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  name_the_index(index, size, [&] { at::index_select_out(out, self, dim, index); });
}

void index_put(at::Tensor& selfRef, const Indices& indices, const at::Tensor& values, bool accumulate, bool unsafe) {
  if (selfRef.numel() == 0 || values.numel() == 0) return;
  const Indices given = whole_dimensions(indices);
  if (!any_given(given)) return;
  at::_index_put_impl_(selfRef, given, values, accumulate, unsafe);
}

void index_copy(at::Tensor& selfRef, int64_t dim, const at::Tensor& index, const at::Tensor& source, at::Tensor& outRef) {
  at::index_copy_out(outRef, selfRef, dim, index, source);
}

// ATen's kernels of the next four functions take only int64 indices.

void index_fill(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value, at::Tensor& out) {
  begin_from(self, out);
  out.index_fill_(dim, index.to(at::kLong), value);
}

void index_fill_(at::Tensor& selfRef, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  selfRef.index_fill_(dim, index.to(at::kLong), value);
}

void take(const at::Tensor& self, const at::Tensor& index, at::Tensor& out) { at::take_out(out, self, index.to(at::kLong)); }

void put_(at::Tensor& selfRef, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  selfRef.put_(index.to(at::kLong), source, accumulate);
}

// ATen's meta functions of these two refuse an empty index.
void index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, const at::Scalar& alpha,
               at::Tensor& out) {
  at::index_add_out(out, self, dim, index, source, alpha);
}

void index_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, std::string_view reduce,
                  bool includeSelf, at::Tensor& out) {
  at::index_reduce_out(out, self, dim, index, source, reduce, includeSelf);
}

void index_fill_array(const at::Tensor& self, int64_t dim, at::IntArrayRef index, const at::Scalar& value, at::Tensor& out) {
  begin_from(self, out);
  out.index_fill_(dim, at::tensor(index), value);
}

void index_fill_array_(at::Tensor& selfRef, int64_t dim, at::IntArrayRef index, const at::Scalar& value) {
  selfRef.index_fill_(dim, at::tensor(index), value);
}

void scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src, int64_t reduce,
             at::Tensor& out) {
  begin_from(self, out);
  scatter_into(out, dim, index, src, reduce);
}

void scatter_(at::Tensor& selfRef, int64_t dim, const at::Tensor& index, const at::Tensor& src, int64_t reduce) {
  scatter_into(selfRef, dim, index, src, reduce);
}

void scatter_value(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value, int64_t reduce,
                   at::Tensor& out) {
  begin_from(self, out);
  scatter_value_into(out, dim, index, value, reduce);
}

void scatter_value_(at::Tensor& selfRef, int64_t dim, const at::Tensor& index, const at::Scalar& value, int64_t reduce) {
  scatter_value_into(selfRef, dim, index, value, reduce);
}

void scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src, int64_t reduce,
                    bool includeSelf, at::Tensor& out) {
  begin_from(self, out);
  out.scatter_reduce_(dim, index, src, reduction_name(reduce), includeSelf);
}

void scatter_reduce_(at::Tensor& selfRef, int64_t dim, const at::Tensor& index, const at::Tensor& src, int64_t reduce,
                     bool includeSelf) {
  selfRef.scatter_reduce_(dim, index, src, reduction_name(reduce), includeSelf);
}

void search_sorted(const at::Tensor& sortedSequence, const at::Tensor& self, bool outInt32, bool right,
                   const std::optional<at::Tensor>& sorter, at::Tensor& out) {
  at::searchsorted_out(out, sortedSequence, self, outInt32, right, side(right), sorter);
}

void search_sorteds(const at::Tensor& sortedSequence, const at::Scalar& self, bool outInt32, bool right,
                    const std::optional<at::Tensor>& sorter, at::Tensor& out) {
  at::searchsorted_out(out, sortedSequence, self, outInt32, right, side(right), sorter);
}

}  // namespace softnpu::ops::kernels
