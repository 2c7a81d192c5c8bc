#include <bit>
#include <cstring>

#include "ops/engine/call.h"
#include "ops/engine/engine.h"
#include "runtime/base/float16.h"

namespace softnpu::ops::engine {
namespace {

// log2 of the bytes of an element; -1 if the type is unknown.
int size_class(aclDataType dtype) {
  const int64_t size = item_size_of(dtype);
  return size == 0 ? -1 : std::countr_zero(uint64_t(size));
}

bool convert(const TensorView& out, const TensorView& from) {
  Run loop = nullptr;
  if (out.dtype == from.dtype) {
    const int size = size_class(out.dtype);
    if (size < 0) return false;
    loop = loops().moves[size];
  } else {
    const int source = type_of(from.dtype);
    const int target = type_of(out.dtype);
    if (source < 0 || target < 0) return false;
    loop = loops().casts[source][target];
  }
  Layout layout;
  if (!loop || !layout.plan(out, {&from}, Layout::Rule::kIntoOutput)) return false;
  layout.walk(loop, {});
  return true;
}

// The bits of a value that set_value has accepted.
int64_t bits_of(const Values& values, aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return std::bit_cast<int32_t>(values.floats[0]);
    case ACL_DOUBLE:
      return std::bit_cast<int64_t>(values.doubles[0]);
    case ACL_FLOAT16:
      return half_from_float(values.floats[0]);
    case ACL_BF16:
      return bfloat16_from_float(values.floats[0]);
    default:
      return values.integers[0];
  }
}

bool fill_bits(const TensorView& out, int64_t bits) {
  const int size = size_class(out.dtype);
  Layout layout;
  if (size < 0 || size > 3 || !layout.plan(out, {}, Layout::Rule::kIntoOutput)) return false;
  Values values{};
  values.integers[0] = bits;
  layout.walk(loops().fills[size], values);
  return true;
}

bool fill_value(const TensorView& out, const at::Scalar& value) {
  Values values{};
  if (out.dtype == ACL_BOOL) return value.isBoolean() && fill_bits(out, value.toBool());
  if (type_of(out.dtype) < 0) return false;
  return set_value(value, out.dtype, 0, values) && exact_in(value, out.dtype) && fill_bits(out, bits_of(values, out.dtype));
}

}  // namespace

bool try_copy(const TensorView* tensors, int, const at::Scalar*) { return convert(tensors[0], tensors[1]); }

bool try_cast(const TensorView* tensors, int, const at::Scalar*) { return convert(tensors[1], tensors[0]); }

// Phase one has checked the shapes. The dimension of the concatenation is the one in which the inputs are smaller than the
// output.
bool try_cat(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  const TensorView& out = tensors[0];
  if (tensor_count < 3 || !out.contiguous || out.numel > kMaxElements) return false;
  for (int i = 1; i < tensor_count; ++i) {
    const TensorView& part = tensors[i];
    if (!part.contiguous || part.numel == 0 || part.ndim != out.ndim || part.dtype != out.dtype) return false;
  }
  int64_t rows = 1;
  for (int dim = 0; dim < out.ndim && tensors[1].sizes[dim] == out.sizes[dim]; ++dim) rows *= out.sizes[dim];
  const int64_t item_size = item_size_of(out.dtype);
  auto* target = static_cast<std::byte*>(out.data);
  for (int64_t row = 0; row < rows; ++row) {
    for (int i = 1; i < tensor_count; ++i) {
      const size_t bytes = size_t(tensors[i].numel / rows * item_size);
      std::memcpy(target, static_cast<const std::byte*>(tensors[i].data) + size_t(row) * bytes, bytes);
      target += bytes;
    }
  }
  return true;
}

bool try_fill(const TensorView* tensors, int, const at::Scalar* scalars) { return fill_value(tensors[0], scalars[0]); }

bool try_zero(const TensorView* tensors, int, const at::Scalar*) { return fill_bits(tensors[0], 0); }

bool try_one(const TensorView* tensors, int, const at::Scalar*) { return fill_value(tensors[0], 1); }

bool try_where(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  if (tensor_count != 4 || tensors[0].dtype != ACL_BOOL) return false;
  const TensorView& out = tensors[3];
  const int size = size_class(out.dtype);
  Layout layout;
  if (size < 0 || tensors[1].dtype != out.dtype || tensors[2].dtype != out.dtype) return false;
  if (!layout.plan(out, {&tensors[0], &tensors[1], &tensors[2]})) return false;
  layout.walk(loops().choices[size], {});
  return true;
}

}  // namespace softnpu::ops::engine
