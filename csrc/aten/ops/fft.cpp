// Fourier transforms. Results have the strides of the CPU's results. An out= tensor gets a copy.
#include <ATen/WrapDimUtilsMulti.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_check.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/outputs.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using Numbers = std::vector<int64_t>;

bool is_one_of(at::IntArrayRef dims, int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

// The CPU's FFT library supports neither other dtypes nor empty tensors.
void check_signal(const at::Tensor& self, at::IntArrayRef dims) {
  const at::ScalarType real = c10::toRealValueType(self.scalar_type());
  TORCH_CHECK(real == at::kFloat || real == at::kDouble,
              "Fourier transforms don't support tensors of type: ", self.scalar_type());
  TORCH_CHECK(self.numel() > 0 || dims.empty(), "Fourier transforms don't support empty tensors");
  at::dim_list_to_bitset(dims, self.dim());  // throws if a dimension is given twice
  for (const int64_t dim : dims) {
    TORCH_CHECK_INDEX(dim >= 0 && dim < self.dim(), "Dimension out of range (expected to be in range of [0, ", self.dim() - 1,
                      "], but got ", dim, ")");
  }
}

// Sorts [begin, end) by descending strides.
void sort_dims(Numbers::iterator begin, Numbers::iterator end, at::IntArrayRef strides) {
  std::stable_sort(begin, end,
                   [&](int64_t a, int64_t b) { return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)]; });
}

// Dense strides: first the dimensions that are not transformed, by descending strides, then `dims` in their order.
Numbers strides_after(at::IntArrayRef strides, at::IntArrayRef dims, at::IntArrayRef out_sizes) {
  Numbers order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  const auto batch_end = std::partition(order.begin(), order.end(), [&](int64_t dim) { return !is_one_of(dims, dim); });
  sort_dims(order.begin(), batch_end, strides);
  std::copy(dims.begin(), dims.end(), batch_end);
  Numbers result(strides.size());
  int64_t step = 1;
  for (size_t place = order.size(); place-- > 0;) {
    const auto dim = static_cast<size_t>(order[place]);
    result[dim] = step;
    step *= out_sizes[dim];
  }
  return result;
}

Numbers complex_strides(at::IntArrayRef sizes, at::IntArrayRef strides, at::IntArrayRef dims) {
  Numbers sorted = dims.vec();
  sort_dims(sorted.begin(), sorted.end(), strides);
  return strides_after(strides, sorted, sizes);
}

// ---- the three transforms ----

at::Tensor fft_c2c(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex(), "Only supports complex dtypes, but found: ", self.scalar_type());
  check_signal(self, dims);
  if (dims.empty()) return self.clone();
  const DeviceScope scope(self);
  at::Tensor out = empty_strided(self.sizes(), complex_strides(self.sizes(), self.strides(), dims), self.dtype());
  call::aclnnSoftFftC2C(self, dims, normalization, forward, out);
  return out;
}

// Transforms all dimensions except the last as complex numbers, then the last one to real numbers.
at::Tensor fft_c2r(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, int64_t last_dim_size) {
  TORCH_CHECK(self.is_complex(), "Only supports complex dtypes, but found: ", self.scalar_type());
  TORCH_CHECK(!dims.empty(), "a complex to real transform needs a dimension");
  check_signal(self, dims);
  const int64_t last = dims.back();
  TORCH_CHECK(self.size(last) == last_dim_size / 2 + 1, "a real signal of ", last_dim_size, " numbers has ",
              last_dim_size / 2 + 1, " complex ones, but the dimension has ", self.size(last));
  const DeviceScope scope(self);
  Numbers strides = self.strides().vec();
  if (dims.size() > 1) strides = complex_strides(self.sizes(), strides, dims.slice(0, dims.size() - 1));
  Numbers sizes = self.sizes().vec();
  sizes[static_cast<size_t>(last)] = last_dim_size;
  const auto dtype = c10::scalarTypeToTypeMeta(c10::toRealValueType(self.scalar_type()));
  at::Tensor out = empty_strided(sizes, strides_after(strides, {last}, sizes), dtype);
  call::aclnnSoftFftC2R(self, dims, normalization, last_dim_size, out);
  return out;
}

at::Tensor fft_r2c(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point(), "Only supports floating-point dtypes, but found: ", self.scalar_type());
  TORCH_CHECK(!dims.empty(), "a real to complex transform needs a dimension");
  check_signal(self, dims);
  const DeviceScope scope(self);
  Numbers sizes = self.sizes().vec();
  if (onesided) sizes[static_cast<size_t>(dims.back())] = self.size(dims.back()) / 2 + 1;
  Numbers sorted = dims.vec();
  sort_dims(sorted.begin(), sorted.end() - 1, self.strides());
  const auto dtype = c10::scalarTypeToTypeMeta(c10::toComplexType(self.scalar_type()));
  at::Tensor out = empty_strided(sizes, strides_after(self.strides(), sorted, sizes), dtype);
  call::aclnnSoftFftR2C(self, dims, normalization, onesided, out);
  return out;
}

at::Tensor& fft_c2c_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool forward, at::Tensor& out) {
  return store(fft_c2c(self, dims, normalization, forward), out);
}

at::Tensor& fft_c2r_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, int64_t last_dim_size,
                        at::Tensor& out) {
  return store(fft_c2r(self, dims, normalization, last_dim_size), out);
}

at::Tensor& fft_r2c_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool onesided, at::Tensor& out) {
  return store(fft_r2c(self, dims, normalization, onesided), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fft_c2c", TORCH_FN(fft_c2c));
  m.impl("_fft_c2c.out", TORCH_FN(DeviceChecked<&fft_c2c_out>::call));
  m.impl("_fft_c2r", TORCH_FN(fft_c2r));
  m.impl("_fft_c2r.out", TORCH_FN(DeviceChecked<&fft_c2r_out>::call));
  m.impl("_fft_r2c", TORCH_FN(fft_r2c));
  m.impl("_fft_r2c.out", TORCH_FN(DeviceChecked<&fft_r2c_out>::call));
}

}  // namespace torch_npu
