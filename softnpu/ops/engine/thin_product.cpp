// Products in half precision where one side has few rows or columns, as in the inference of one word or image. They read the
// other side once; ATen's kernel would get a float32 copy of it, which costs more than the product.
#include <ATen/Parallel.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "ops/calls/widening.h"
#include "ops/engine/call.h"
#include "ops/engine/engine.h"

namespace softnpu::ops::engine {
namespace {

constexpr int64_t kProductsPerThread = 32 * 1024;

// A batch of matrices. Strides are in elements.
struct Matrices {
  char* data;
  aclDataType dtype;
  int64_t batches, rows, columns;
  int64_t batch_stride, row_stride, column_stride;
};

Matrices matrices(const TensorView& view) {
  const bool is_batch = view.ndim == 3;
  const int64_t *sizes = view.sizes + is_batch, *strides = view.strides + is_batch;
  return {.data = static_cast<char*>(view.data),
          .dtype = view.dtype,
          .batches = is_batch ? view.sizes[0] : 1,
          .rows = sizes[0],
          .columns = sizes[1],
          .batch_stride = is_batch ? view.strides[0] : 0,
          .row_stride = strides[0],
          .column_stride = strides[1]};
}

// A vector as a matrix of one column.
Matrices column(const TensorView& view) {
  return {.data = static_cast<char*>(view.data),
          .dtype = view.dtype,
          .batches = 1,
          .rows = view.sizes[0],
          .columns = 1,
          .batch_stride = 0,
          .row_stride = view.strides[0],
          .column_stride = 0};
}

// `view` broadcast to the shape of one matrix. With `is_column` its last dimension is that of the rows.
std::optional<Matrices> broadcast(const TensorView& view, const Matrices& to, bool is_column) {
  Matrices wide{.data = static_cast<char*>(view.data),
                .dtype = view.dtype,
                .batches = 1,
                .rows = to.rows,
                .columns = to.columns,
                .batch_stride = 0,
                .row_stride = 0,
                .column_stride = 0};
  if (view.ndim > (is_column ? 1 : 2)) return std::nullopt;
  for (int dim = 0; dim < view.ndim; ++dim) {
    const bool is_row = is_column || dim < view.ndim - 1;
    if (view.sizes[dim] == 1) continue;
    if (view.sizes[dim] != (is_row ? to.rows : to.columns)) return std::nullopt;
    (is_row ? wide.row_stride : wide.column_stride) = view.strides[dim];
  }
  return wide;
}

void transpose(Matrices& a) {
  std::swap(a.rows, a.columns);
  std::swap(a.row_stride, a.column_stride);
}

constexpr int64_t kItem = 2;  // bytes of a number of half precision

char* address(const Matrices& a, int64_t batch, int64_t row, int64_t column) {
  return a.data + (batch * a.batch_stride + row * a.row_stride + column * a.column_stride) * kItem;
}

// Copies one row into or out of floats.
void widen_row(const Matrices& a, int64_t batch, int64_t row, float* to) {
  char* const data[] = {reinterpret_cast<char*>(to), address(a, batch, row, 0)};
  const int64_t strides[] = {sizeof(float), a.column_stride * kItem};
  loops().casts[type_of(a.dtype)][int(Type::kFloat)](data, strides, a.columns, {});
}

void narrow_row(const float* from, const Matrices& a, int64_t batch, int64_t row) {
  char* const data[] = {address(a, batch, row, 0), reinterpret_cast<char*>(const_cast<float*>(from))};
  const int64_t strides[] = {a.column_stride * kItem, sizeof(float)};
  loops().casts[int(Type::kFloat)][type_of(a.dtype)](data, strides, a.columns, {});
}

// out = alpha * a @ b + beta * addend. The addend is null if there is none. Nothing is written before everything was read, so the
// output may overlap the operands.
bool multiply(Matrices a, Matrices b, Matrices out, Matrices* addend = nullptr, float alpha = 1, float beta = 0) {
  if (a.dtype != out.dtype || b.dtype != out.dtype || (addend != nullptr && addend->dtype != out.dtype)) return false;
  if (a.rows != out.rows || b.columns != out.columns || a.columns != b.rows) return false;
  if (a.batches != out.batches || b.batches != out.batches || out.batches * out.rows * out.columns == 0) return false;
  if (a.columns == 0) return false;
  if (b.columns < a.rows) {
    std::swap(a, b);
    for (Matrices* each : {&a, &b, &out}) transpose(*each);
    if (addend != nullptr) transpose(*addend);
  }
  const bool has_dense_columns = b.rows == 1 || b.row_stride == 1;
  const bool has_dense_rows = b.columns == 1 || b.column_stride == 1;
  // With instructions for products of the type, ATen is faster from two rows on.
  const int most_rows = multiplies_natively(out.dtype) ? 1 : kMostThinRows;
  if (a.rows > most_rows || !(has_dense_columns || has_dense_rows)) return false;

  const int type = type_of(out.dtype);
  std::vector<float> rows(size_t(out.batches * a.rows * a.columns)), results(size_t(out.batches * out.rows * out.columns));
  for (int64_t row = 0; row < out.batches * a.rows; ++row)
    widen_row(a, row / a.rows, row % a.rows, rows.data() + row * a.columns);

  const auto run = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t batch = begin / out.columns, first = begin % out.columns;
      const int64_t count = std::min(end - begin, out.columns - first);
      const ThinProduct product{.rows = rows.data() + batch * a.rows * a.columns,
                                .row_stride = a.columns,
                                .row_count = int(a.rows),
                                .matrix = address(b, batch, 0, 0),
                                .stride = b.row_stride * kItem,
                                .column_stride = b.column_stride * kItem,
                                .has_dense_columns = has_dense_columns,
                                .length = a.columns,
                                .results = results.data() + batch * out.rows * out.columns,
                                .result_stride = out.columns};
      loops().thin_products[type](product, first, first + count);
      begin += count;
    }
  };
  const int64_t columns = out.batches * out.columns, products_of_column = std::max<int64_t>(1, a.columns * a.rows);
  if (columns * products_of_column <= kProductsPerThread) {
    run(0, columns);
  } else {
    at::init_num_threads();
    at::parallel_for(0, columns, std::max<int64_t>(1, kProductsPerThread / products_of_column), run);
  }

  std::vector<float> addends(addend != nullptr && beta != 0 ? size_t(out.rows * out.columns) : 0);
  for (int64_t row = 0; row < (addends.empty() ? 0 : out.rows); ++row) widen_row(*addend, 0, row, &addends[row * out.columns]);
  for (size_t i = 0; alpha != 1 && i < results.size(); ++i) results[i] *= alpha;
  for (size_t i = 0; i < addends.size(); ++i) results[i] += beta * addends[i];
  for (int64_t row = 0; row < out.batches * out.rows; ++row) {
    narrow_row(results.data() + row * out.columns, out, row / out.rows, row % out.rows);
  }
  return true;
}

bool is_half(const TensorView& view) { return view.dtype == ACL_FLOAT16 || view.dtype == ACL_BF16; }

// Products in float32 and double, which are not for this file, leave after these comparisons.
bool are_half(const TensorView* tensors, std::initializer_list<int> dimensions) {
  for (const int ndim : dimensions) {
    if (!is_half(*tensors) || tensors->ndim != ndim) return false;
    ++tensors;
  }
  return true;
}

bool with_addend(const TensorView& addend, const Matrices& a, const Matrices& b, const Matrices& out, bool is_column,
                 const at::Scalar& alpha, const at::Scalar& beta) {
  if (alpha.isComplex() || beta.isComplex()) return false;
  std::optional<Matrices> wide = broadcast(addend, out, is_column);
  return wide.has_value() && multiply(a, b, out, &*wide, alpha.to<float>(), beta.to<float>());
}

}  // namespace

bool try_mm(const TensorView* tensors, int, const at::Scalar*) {
  return are_half(tensors, {2, 2, 2}) && multiply(matrices(tensors[0]), matrices(tensors[1]), matrices(tensors[2]));
}

bool try_bmm(const TensorView* tensors, int, const at::Scalar*) {
  return are_half(tensors, {3, 3, 3}) && multiply(matrices(tensors[0]), matrices(tensors[1]), matrices(tensors[2]));
}

bool try_mv(const TensorView* tensors, int, const at::Scalar*) {
  return are_half(tensors, {2, 1, 1}) && multiply(matrices(tensors[0]), column(tensors[1]), column(tensors[2]));
}

bool try_dot(const TensorView* tensors, int, const at::Scalar*) {
  if (!are_half(tensors, {1, 1, 0})) return false;
  Matrices row = column(tensors[0]);
  transpose(row);
  const Matrices out{.data = static_cast<char*>(tensors[2].data),
                     .dtype = tensors[2].dtype,
                     .batches = 1,
                     .rows = 1,
                     .columns = 1,
                     .batch_stride = 0,
                     .row_stride = 0,
                     .column_stride = 0};
  return multiply(row, column(tensors[1]), out);
}

bool try_addmm(const TensorView* tensors, int, const at::Scalar* scalars) {
  return are_half(tensors + 1, {2, 2, 2}) &&
         with_addend(tensors[0], matrices(tensors[1]), matrices(tensors[2]), matrices(tensors[3]), false, scalars[1], scalars[0]);
}

bool try_addmv(const TensorView* tensors, int, const at::Scalar* scalars) {
  return are_half(tensors + 1, {2, 1, 1}) &&
         with_addend(tensors[0], matrices(tensors[1]), column(tensors[2]), column(tensors[3]), true, scalars[0], scalars[1]);
}

}  // namespace softnpu::ops::engine
