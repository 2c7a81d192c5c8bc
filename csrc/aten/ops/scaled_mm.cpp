// Products of float8 and int8 matrices, and of groups of matrices in one launch. A float8 matrix has one scale, or one scale per
// row (first matrix) or column (second matrix); scales per block are refused. A tensor on the device holds the ends of the
// groups, so the host does not wait.
#include <ATen/native/GroupedMMUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using OptionalDtype = std::optional<at::ScalarType>;

// ---- one product ----

// Values of torch.nn.functional.ScalingType.
enum Recipe : int64_t { kPerTensor = 0, kPerRow = 1 };

void check_matrices(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
              b.size(0), "x", b.size(1), ")");
}

bool scaled_per_tensor(const at::Tensor& scale_a, const at::Tensor& scale_b) {
  return scale_a.numel() == 1 && scale_b.numel() == 1;
}

bool scaled_per_row(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b) {
  return scale_a.dim() == 2 && scale_a.size(0) == a.size(0) && scale_a.size(1) == 1 && scale_b.dim() == 2 &&
         scale_b.size(0) == 1 && scale_b.size(1) == b.size(1) && scale_a.is_contiguous() && scale_b.is_contiguous();
}

[[noreturn]] void refuse_scales(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_VALUE(
      false, "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales should be float ",
      "and singletons.\n- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be (", a.size(0),
      ", 1) and scale_b should be (1, ", b.size(1), "), and both should be contiguous.");
}

at::Tensor& scaled_mm_out(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                          const OptionalTensor& bias, const OptionalTensor& scale_result, OptionalDtype out_dtype,
                          bool /*use_fast_accum*/, at::Tensor& out) {
  check_matrices(a, b);
  const bool typed = at::isFloat8Type(a.scalar_type()) && at::isFloat8Type(b.scalar_type()) &&
                     scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat;
  if (!typed || !(scaled_per_tensor(scale_a, scale_b) || scaled_per_row(a, b, scale_a, scale_b))) refuse_scales(a, b);
  TORCH_CHECK(!scale_result || (scale_result->numel() == 1 && scale_result->scalar_type() == at::kFloat),
              "scale_result must be a float scalar");
  TORCH_CHECK(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ", bias ? bias->numel() : 0);
  TORCH_CHECK_VALUE(!out_dtype || *out_dtype == out.scalar_type(), "out_dtype must match output matrix type");
  const DeviceScope scope(a);
  at::native::resize_output(out, {a.size(0), b.size(1)});
  call::aclnnQuantMatmulV5(a, b, scale_a.flatten(), scale_b.flatten(), scale_result, std::nullopt, std::nullopt, std::nullopt,
                           bias, /*transposeX1=*/false, /*transposeX2=*/false, /*groupSize=*/0, out);
  return out;
}

at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                     const OptionalTensor& bias, const OptionalTensor& scale_result, OptionalDtype out_dtype,
                     bool use_fast_accum) {
  const DeviceScope scope(a);
  at::Tensor out = empty({0}, out_dtype.value_or(a.scalar_type()));
  return scaled_mm_out(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, out);
}

at::Tensor& scaled_mm_v2_out(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                             at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b,
                             at::IntArrayRef swizzle_b, const OptionalTensor& bias, OptionalDtype out_dtype,
                             at::IntArrayRef /*contraction_dim*/, bool use_fast_accum, at::Tensor& out) {
  check_matrices(a, b);
  const auto plain = [](int64_t swizzle) { return swizzle == 0; };
  TORCH_CHECK_VALUE(std::ranges::all_of(swizzle_a, plain) && std::ranges::all_of(swizzle_b, plain),
                    "npu does not support swizzle.");
  if (scale_a.size() != 1 || scale_b.size() != 1 || recipe_a != recipe_b ||
      (recipe_a != at::IntArrayRef{kPerTensor} && recipe_a != at::IntArrayRef{kPerRow})) {
    refuse_scales(a, b);
  }
  if (recipe_a[0] == kPerTensor ? !scaled_per_tensor(scale_a[0], scale_b[0]) : !scaled_per_row(a, b, scale_a[0], scale_b[0])) {
    refuse_scales(a, b);
  }
  return scaled_mm_out(a, b, scale_a[0], scale_b[0], bias, std::nullopt, out_dtype, use_fast_accum, out);
}

at::Tensor scaled_mm_v2(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                        at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                        const OptionalTensor& bias, OptionalDtype out_dtype, at::IntArrayRef contraction_dim,
                        bool use_fast_accum) {
  const DeviceScope scope(a);
  at::Tensor out = empty({0}, out_dtype.value_or(a.scalar_type()));
  return scaled_mm_v2_out(a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype, contraction_dim,
                          use_fast_accum, out);
}

at::Tensor& int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  TORCH_CHECK(self.dim() == 2, "_int_mm: Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(mat2.dim() == 2, "_int_mm: Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(self.size(1) == mat2.size(0), "_int_mm: self.size(1) needs to match mat2.size(0) but got ", self.size(1), " and ",
              mat2.size(0));
  TORCH_CHECK(self.scalar_type() == at::kChar || self.scalar_type() == at::kByte,
              "_int_mm: Expected self dtype to be int8 or uint8 but got ", self.scalar_type());
  TORCH_CHECK(mat2.scalar_type() == at::kChar, "_int_mm: Expected mat2 dtype to be of type int8 but got ", mat2.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kInt, "_int_mm: Expected result dtype to be of type kInt but got ", out.scalar_type());
  TORCH_CHECK(out.sizes() == at::IntArrayRef({self.size(0), mat2.size(1)}), "_int_mm: Expected result to be of size [",
              self.size(0), ", ", mat2.size(1), "] but got ", out.sizes());
  const DeviceScope scope(self);
  call::aclnnSoftIntMm(self, mat2, out);
  return out;
}

at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  const DeviceScope scope(self);
  at::Tensor out = empty({self.dim() > 0 ? self.size(0) : 0, mat2.dim() > 1 ? mat2.size(1) : 0}, at::kInt);
  return int_mm_out(self, mat2, out);
}

// ---- groups ----

// Values of aclnnGroupedMatmul's groupType: the dimension that the groups divide.
enum GroupType : int64_t { kNothing = -1, kRows = 0, kInner = 2 };

struct Scales {
  at::Tensor rows, columns;  // undefined: no scales
};

void launch_groups(at::TensorList a, at::TensorList b, at::TensorList rows, at::TensorList columns, const OptionalTensor& ends,
                   GroupType type, at::TensorList out) {
  constexpr at::TensorList kNone;
  call::aclnnGroupedMatmulV4(a, b, kNone, columns, kNone, kNone, kNone, rows, ends, kNone, kNone, kNone, /*splitItem=*/3, type,
                             /*groupListType=*/0, /*actType=*/0, out, kNone, kNone);
}

// The ranks of `a` and `b` tell which dimension the groups divide: rows of `a`, columns of `b`, or the inner dimension.
at::Tensor multiply_groups(const at::Tensor& a, const at::Tensor& b, const Scales& scales, const OptionalTensor& offs,
                           at::ScalarType dtype) {
  at::Tensor out = at::native::create_grouped_gemm_output_tensor(a, b, offs, dtype);
  if (out.numel() == 0) return out;
  const bool scaled = scales.rows.defined();
  const at::TensorList rows = scaled ? at::TensorList(scales.rows) : at::TensorList();
  const at::TensorList columns = scaled ? at::TensorList(scales.columns) : at::TensorList();
  if (!offs.has_value()) {
    const auto unbound = [&](const at::Tensor& scale) { return scaled ? scale.unbind() : std::vector<at::Tensor>(); };
    launch_groups(a.unbind(), b.unbind(), unbound(scales.rows), unbound(scales.columns), std::nullopt, kNothing, out.unbind());
    return out;
  }
  const at::Tensor ends = offs->to(at::kLong);
  if (b.dim() == 2 && a.dim() == 2) {
    launch_groups(a, b, rows, columns, ends, kInner, out);
  } else if (a.dim() == 2) {
    launch_groups(a, b, rows, columns, ends, kRows, out);
  } else {
    launch_groups(b.t(), a.mT(), columns, rows, ends, kRows, out.t());
  }
  return out;
}

at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& offs, const OptionalTensor& bias,
                      OptionalDtype out_dtype) {
  const DeviceScope scope(a);
  at::native::_grouped_mm_validate_inputs(a, b, offs, bias, out_dtype);
  return multiply_groups(a, b, {}, offs, at::native::_resolve_grouped_mm_out_dtype(a, b, out_dtype));
}

// `size` numbers for a matrix, `groups` times as many if the groups divide the inner dimension.
void check_scale(const char* name, const at::Tensor& scale, const at::Tensor& matrix, int64_t size, int64_t groups) {
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "npu takes scales of rows, which are float32, but ", name, " is ",
              scale.scalar_type());
  TORCH_CHECK(scale.is_contiguous(), name, " must be contiguous");
  if (matrix.dim() == 2) {
    TORCH_CHECK(scale.dim() == 1 && scale.size(0) == size * groups, name, " must be a vector of ", size * groups,
                " elements, but its size is ", scale.sizes());
  } else {
    TORCH_CHECK(scale.sizes() == at::IntArrayRef({matrix.size(0), size}), name, " must be of size [", matrix.size(0), ", ", size,
                "], but its size is ", scale.sizes());
  }
}

at::Tensor scaled_grouped_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                             const OptionalTensor& offs, const OptionalTensor& bias, const OptionalTensor& scale_result,
                             OptionalDtype out_dtype, bool /*use_fast_accum*/) {
  TORCH_CHECK(a.scalar_type() == at::kFloat8_e4m3fn && b.scalar_type() == at::kFloat8_e4m3fn,
              "Expected mat_a and mat_b to be Float8_e4m3 matrices, got ", a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
  TORCH_CHECK(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
  const bool ragged = a.dim() == 2 || b.dim() == 2, inner = a.dim() == 2 && b.dim() == 2;
  TORCH_CHECK(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  TORCH_CHECK(a.stride(-1) == 1, "Expected mat_a to be row major");
  TORCH_CHECK(b.stride(-2) == 1, "Expected mat_b to be column major");
  at::native::check_valid_strides_and_return_transposed(a);
  at::native::check_valid_strides_and_return_transposed(b);
  TORCH_CHECK(offs.has_value() == ragged, "Have to provide offsets if there is a 2d matrix, or no offset if both are 3d");
  TORCH_CHECK(!ragged || (offs->dim() == 1 && offs->scalar_type() == at::kInt), "offs has to be a 1D tensor of int32");
  TORCH_CHECK(!bias.has_value(), "Bias not supported yet");
  TORCH_CHECK(!scale_result.has_value(), "Scale result not supported yet");
  TORCH_CHECK(out_dtype.value_or(at::kBFloat16) == at::kBFloat16, "Only bf16 high precision output types are supported for ",
              "grouped gemm");
  const int64_t groups = inner ? offs->size(0) : 1;
  check_scale("scale_a", scale_a, a, a.size(-2), groups);
  check_scale("scale_b", scale_b, b, b.size(-1), groups);
  const DeviceScope scope(a);
  return multiply_groups(a, b, {scale_a, scale_b}, offs, at::kBFloat16);
}

at::Tensor scaled_grouped_mm_v2(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                                at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b,
                                at::IntArrayRef swizzle_b, const OptionalTensor& offs, const OptionalTensor& bias,
                                OptionalDtype out_dtype, at::IntArrayRef /*contraction_dim*/, bool use_fast_accum) {
  const auto plain = [](int64_t swizzle) { return swizzle == 0; };
  TORCH_CHECK_VALUE(std::ranges::all_of(swizzle_a, plain) && std::ranges::all_of(swizzle_b, plain),
                    "npu does not support swizzle.");
  TORCH_CHECK_VALUE(
      scale_a.size() == 1 && scale_b.size() == 1 && recipe_a == at::IntArrayRef{kPerRow} && recipe_b == at::IntArrayRef{kPerRow},
      "Invalid scaling configuration: npu multiplies groups with one scale for each row and column (RowWise).");
  return scaled_grouped_mm(a, b, scale_a[0], scale_b[0], offs, bias, std::nullopt, out_dtype, use_fast_accum);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_mm", TORCH_FN(scaled_mm));
  m.impl("_scaled_mm.out", TORCH_FN(scaled_mm_out));
  m.impl("_scaled_mm_v2", TORCH_FN(scaled_mm_v2));
  m.impl("_scaled_mm_v2.out", TORCH_FN(scaled_mm_v2_out));
  m.impl("_int_mm", TORCH_FN(int_mm));
  m.impl("_int_mm.out", TORCH_FN(int_mm_out));
  m.impl("_grouped_mm", TORCH_FN(grouped_mm));
  m.impl("_scaled_grouped_mm", TORCH_FN(scaled_grouped_mm));
  m.impl("_scaled_grouped_mm_v2", TORCH_FN(scaled_grouped_mm_v2));
}

}  // namespace torch_npu
