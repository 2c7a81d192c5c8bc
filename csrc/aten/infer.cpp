#include "aten/infer.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/native/LossMulti.h>
#include <ATen/native/Padding.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/result_type.h>

#include "aten/structured.h"

namespace torch_npu {

Output like(const at::Tensor& tensor, at::ScalarType dtype) {
  Output output = sized(tensor.sizes(), tensor.options().dtype(dtype));
  if (tensor.is_contiguous()) return output;
  if (tensor.is_non_overlapping_and_dense()) {
    output.strides = Sizes(tensor.strides());
  } else {
    output.strides = Sizes(at::infer_dense_strides(tensor.sizes(), tensor.strides()));
  }
  return output;
}

Output formatted_like(const at::Tensor& tensor) {
  Output output = sized(tensor.sizes(), tensor.options());
  output.options = output.options.memory_format(tensor.suggest_memory_format());
  return output;
}

at::Tensor prepare_output(const at::Tensor& given, const Output& output) {
  at::assert_no_internal_overlap(given);  // before it is resized
  for (const at::Tensor& other : output.apart) at::assert_no_overlap(given, other);
  if (!output.casts || given.dtype() == output.options.dtype()) {
    resize_output(given, output.sizes, output.strides, output.options);
    return {};
  }
  const at::ScalarType from = c10::typeMetaToScalarType(output.options.dtype());
  TORCH_CHECK(c10::canCast(from, given.scalar_type()), "result type ", from, " can't be cast to the desired output type ",
              given.scalar_type());
  resize_output(given, output.sizes, output.strides, output.options.dtype(given.dtype()));
  return output.made.defined() ? output.made : empty_output(output.sizes, output.strides, output.options);
}

void check_inplace_broadcast(const at::Tensor& self, const at::Tensor& other) {
  if (self.sizes() == other.sizes()) return;
  const auto sizes = at::infer_size_dimvector(self.sizes(), other.sizes());
  TORCH_CHECK(self.sizes() == at::IntArrayRef(sizes), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
              at::IntArrayRef(sizes));
}

namespace infer {

namespace {

bool defined(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

// The broadcast of all operands, laid out as TensorIterator does it; it also refuses operands of two devices. Number-like
// operands may be on CPU.
Output broadcast(std::initializer_list<std::reference_wrapper<const at::Tensor>> operands, at::ScalarType dtype) {
  const at::Tensor& first = *operands.begin();
  c10::Device device = first.device();
  bool alike = true;
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).allow_cpu_scalars(true).add_owned_output(at::Tensor());
  for (const at::Tensor& operand : operands) {
    alike = alike && operand.is_contiguous() && operand.device() == device && operand.sizes() == first.sizes();
    config.add_const_input(operand);
  }
  if (alike) {
    Output output = sized(first.sizes(), first.options().dtype(dtype));
    output.casts = true;
    return output;
  }
  for (const at::Tensor& operand : operands) {
    if (!operand.is_cpu()) device = operand.device();
  }
  Functional<at::TensorIteratorBase, 1> iterator;
  iterator.build(config.declare_static_dtype_and_device(dtype, device));
  const at::Tensor& made = iterator.output(0);
  return {.sizes = Sizes(made.sizes()), .strides = Sizes(made.strides()), .options = made.options(), .casts = true, .made = made};
}

Output reduced_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  const at::ScalarType dtype = at::result_type(self, target);
  return reduction == at::Reduction::None ? broadcast({self, target}, dtype) : sized({}, self.options().dtype(dtype));
}

// Statistics of a normalisation are kept in float32 when a half-precision input meets float32 parameters.
at::ScalarType statistics_dtype(const at::Tensor& input, const OptionalTensor& parameter) {
  return defined(parameter) && at::isReducedFloatingType(input.scalar_type()) ? parameter->scalar_type() : input.scalar_type();
}

// All share one dtype, or a half-precision input meets parameters of float32.
void check_mixed_dtypes(const at::Tensor& input, std::initializer_list<std::reference_wrapper<const OptionalTensor>> parameters) {
  const auto differs = [&](const OptionalTensor& tensor) { return defined(tensor) && tensor->dtype() != input.dtype(); };
  if (std::none_of(parameters.begin(), parameters.end(), differs)) return;
  for (const OptionalTensor& parameter : parameters) {
    TORCH_CHECK(!defined(parameter) || parameter->scalar_type() == at::kFloat,
                "mixed dtype: expect parameter to have scalar type of Float, but got ", parameter->scalar_type(),
                " with input of ", input.scalar_type());
  }
  TORCH_CHECK(at::isReducedFloatingType(input.scalar_type()), "mixed dtype: all inputs must share same datatype, but got Float ",
              "parameters with input of ", input.scalar_type());
}

Outputs<3> masked(Output first, Output second, Output third, std::array<bool, 3> mask) {
  Outputs<3> outputs{std::move(first), std::move(second), std::move(third)};
  for (size_t index = 0; index < 3; ++index) outputs[index].wanted = mask[index];
  return outputs;
}

// A complex number has no place among real ones; the words are those of its conversion.
void check_real(const at::Scalar& value, at::ScalarType dtype) {
  if (!value.isComplex() || at::isComplexType(dtype)) return;
  AT_DISPATCH_V2(dtype, "check_real", AT_WRAP([&] { (void)value.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES), at::kBool, at::kHalf,
                 at::kBFloat16);
}

void check_factor(const at::Scalar& value, const char* name, at::ScalarType dtype) {
  TORCH_CHECK(!value.isBoolean() || dtype == at::kBool, "Boolean ", name, " only supported for Boolean results.");
  TORCH_CHECK(at::isFloatingType(dtype) || at::isComplexType(dtype) || value.isIntegral(/*includeBool=*/true),
              "For integral input tensors, argument ", name, " must not be a floating point number.");
}

struct NamedSizes {
  const char* name;
  at::IntArrayRef values;
};

void check_pairs(std::initializer_list<NamedSizes> pairs) {
  for (const auto& [name, values] : pairs) {
    TORCH_CHECK(values.size() == 2, "It is expected ", name, " equals to 2, but got size ", values.size());
  }
}

}  // namespace

Outputs<1> absolute(const at::Tensor& self) {
  Output output = like(self, c10::toRealValueType(self.scalar_type()));
  output.casts = self.is_complex();
  return {output};
}

Outputs<1> truth_of_two(const at::Tensor& self, const at::Tensor& other) { return {broadcast({self, other}, at::kBool)}; }

Outputs<1> promoted(const at::Tensor& self, const at::Tensor& other) {
  return {broadcast({self, other}, at::result_type(self, other))};
}

Outputs<1> number_first(const at::Scalar& self, const at::Tensor& other) {
  return {elementwise(other, at::result_type(self, other))};
}

Outputs<1> where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  Output output = broadcast({condition, self, other}, at::result_type(self, other));
  output.casts = false;
  return {output};
}

Outputs<1> flip(const at::Tensor& self, at::IntArrayRef dims) {
  at::dim_list_to_bitset(dims, self.dim());
  return {like(self)};
}

Outputs<1> roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  TORCH_CHECK(dims.size() == shifts.size() || (dims.empty() && shifts.size() == 1),
              "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  for (const int64_t dim : dims) at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  return {dims.empty() ? sized(self.sizes(), self.options()) : formatted_like(self)};
}

Outputs<1> hardtanh(const at::Tensor& self, const at::Scalar& min_val, const at::Scalar& max_val) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  TORCH_CHECK(self.scalar_type() != at::kByte || (min_val.toLong() >= 0 && max_val.toLong() >= 0),
              "cannot do hardtanh on an unsigned type with negative limits");
  return {like(self)};
}

Outputs<2> log_sigmoid(const at::Tensor& self) { return {like(self), sized(self.sizes(), self.options())}; }

Outputs<1> logit(const at::Tensor& self, std::optional<double> /*eps*/) {
  const bool whole = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  return {elementwise(self, whole ? c10::get_default_dtype_as_scalartype() : self.scalar_type())};
}

Outputs<1> angle(const at::Tensor& self) {
  const bool whole = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  return {elementwise(self, whole ? c10::get_default_dtype_as_scalartype() : c10::toRealValueType(self.scalar_type()))};
}

Outputs<1> channel_shuffle(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1), " channels and ",
              groups, " groups.");
  return {formatted_like(self)};
}

Outputs<1> masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> /*dim*/,
                          std::optional<int64_t> mask_type) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  constexpr int64_t kSquare = 0, kPadding = 1, kWhole = 2;
  const int64_t kind = mask.dim() == 2 && self.dim() == 4 ? mask_type.value_or(kWhole) : kWhole;
  TORCH_CHECK(kind != kWhole || self.sizes() == mask.sizes(), "For mask_type == 2 mask should have same shape as input");
  TORCH_CHECK(kind != kPadding || (self.size(0) == mask.size(0) && self.size(2) == mask.size(1)),
              "For mask_type == 1 mask shape should be (B, L)");
  TORCH_CHECK(kind != kSquare || (self.size(2) == mask.size(0) && self.size(2) == mask.size(1)),
              "For mask_type == 0 mask shape should be (L, L)");
  return dense_like_self(self);
}

Outputs<1> masked_softmax_backward(const at::Tensor& grad_output, const at::Tensor& /*output*/, const at::Tensor& mask,
                                   std::optional<int64_t> /*dim*/) {
  TORCH_CHECK(grad_output.sizes() == mask.sizes(), "Mask shape should match grad shape");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  return dense_like_self(grad_output);
}

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

Outputs<1> cdist(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> /*compute_mode*/) {
  TORCH_CHECK(at::isFloatingType(x1.scalar_type()), "cdist only supports floating-point dtypes, X1 got: ", x1.scalar_type());
  TORCH_CHECK(at::isFloatingType(x2.scalar_type()), "cdist only supports floating-point dtypes, X2 got: ", x2.scalar_type());
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2, "cdist only supports at least 2D tensors, got ", x1.dim(), "D and ", x2.dim(), "D");
  TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  Sizes sizes(at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2)));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  return {sized(sizes, x1.options())};
}

Outputs<1> cdist_backward(const at::Tensor& /*grad*/, const at::Tensor& x1, const at::Tensor& x2, double /*p*/,
                          const at::Tensor& /*cdist*/) {
  Sizes sizes(at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2)));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x1.size(-1));
  return {sized(sizes, x1.options())};
}

Outputs<1> pdist(const at::Tensor& self, double /*p*/) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
  const int64_t rows = self.size(0);
  return {sized({rows <= 1 ? 0 : rows * (rows - 1) / 2}, self.options())};
}

Outputs<1> prod(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const at::ScalarType own = self.scalar_type();
  return {sized({}, self.options().dtype(dtype.value_or(at::isIntegralType(own, true) ? at::kLong : own)))};
}

Outputs<1> logcumsumexp(const at::Tensor& self, int64_t dim) {
  at::maybe_wrap_dim(dim, self.dim());
  return dense_like_self(self);
}

Outputs<1> trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  const at::ScalarType own = self.scalar_type();
  return {sized({}, self.options().dtype(at::isIntegralType(own, true) ? at::kLong : own))};
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

Outputs<1> addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha) {
  TORCH_CHECK(vec1.dim() == 1 && vec2.dim() == 1, "addr: Expected 1-D arguments vec1 and vec2, but got ", vec1.dim(), "-D and ",
              vec2.dim(), "-D");
  const at::ScalarType dtype = at::promote_types(at::result_type(self, vec1), vec2.scalar_type());
  check_factor(beta, "beta", dtype);
  check_factor(alpha, "alpha", dtype);
  const at::Tensor expanded = self.expand({vec1.size(0), vec2.size(0)}), column = vec1.unsqueeze(1);
  return {broadcast({expanded, column, vec2}, dtype)};
}

Outputs<1> addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& /*beta*/,
                  const at::Scalar& /*alpha*/) {
  const int64_t rows = batch1.size(1), columns = batch2.size(2);
  (void)self.expand({rows, columns});
  TORCH_CHECK(batch1.dim() == 3 && batch2.dim() == 3, "batch1 and batch2 must be 3D tensors");
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (",
              batch1.sizes(), " and ", batch2.sizes(), ")");
  return {sized({rows, columns}, self.options())};
}

void mm(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(self.dtype() == mat2.dtype(), "expected m1 and m2 to have the same dtype, but got: ", self.dtype(),
              " != ", mat2.dtype());
}

void addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& /*beta*/,
           const at::Scalar& /*alpha*/) {
  TORCH_CHECK(self.dtype() == mat2.dtype(), "self and mat2 must have the same dtype, but got ", self.scalar_type(), " and ",
              mat2.scalar_type());
  TORCH_CHECK(mat1.dtype() == mat2.dtype(), "mat1 and mat2 must have the same dtype, but got ", mat1.scalar_type(), " and ",
              mat2.scalar_type());
  if (C10_UNLIKELY(self.numel() == 0 && mat1.dim() == 2 && mat2.dim() == 2)) (void)self.expand({mat1.size(0), mat2.size(1)});
}

void bmm(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(self.dtype() == mat2.dtype(), "expected scalar type ", self.scalar_type(), " but found ", mat2.scalar_type());
}

void pointwise(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value) {
  check_real(value, at::promote_types(at::result_type(self, tensor1), tensor2.scalar_type()));
}

void lerp_number(const at::Tensor& self, const at::Tensor& /*end*/, const at::Scalar& weight) {
  check_real(weight, self.scalar_type());
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

void clamp_numbers(const at::Tensor& self, const std::optional<at::Scalar>& min, const std::optional<at::Scalar>& max) {
  const auto keeps_bool = [](const std::optional<at::Scalar>& number) { return !number.has_value() || number->isBoolean(); };
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool || !keeps_bool(min) || !keeps_bool(max),
                              "\"clamp\" not implemented for 'Bool'");
}

void clamp_tensors(const at::Tensor& self, const OptionalTensor& min, const OptionalTensor& max) {
  const auto is_bool = [](const OptionalTensor& tensor) { return defined(tensor) && tensor->scalar_type() == at::kBool; };
  TORCH_CHECK_NOT_IMPLEMENTED(!is_bool(self) || !is_bool(min) || !is_bool(max), "\"clamp\" not implemented for 'Bool'");
}

void embedding_renorm(const at::Tensor& self, const at::Tensor& /*indices*/, double /*max_norm*/, double /*norm_type*/) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "norm(): input dtype should be either floating point or complex. Got ", self.scalar_type(), " instead.");
}

Outputs<1> dot(const at::Tensor& self, const at::Tensor& tensor) {
  TORCH_CHECK(self.dim() == 1 && tensor.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", tensor.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == tensor.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", tensor.scalar_type());
  TORCH_CHECK(self.numel() == tensor.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              tensor.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", tensor.numel(),
              " elements respectively");
  return {sized({}, self.options())};
}

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

namespace {

bool is_index(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt; }

}  // namespace

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

Outputs<1> reflection_pad2d(const at::Tensor& self, at::IntArrayRef padding) {
  at::native::padding::check_valid_input<2>(self, padding);
  const int64_t height = self.size(-2), width = self.size(-1);
  TORCH_CHECK(padding[0] < width && padding[1] < width && padding[2] < height && padding[3] < height,
              "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ", padding,
              " for input ", self.sizes());
  Output output = formatted_like(self);
  output.sizes[self.dim() - 2] += padding[2] + padding[3];
  output.sizes[self.dim() - 1] += padding[0] + padding[1];
  return {output};
}

Outputs<1> huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  return {reduced_loss(self, target, reduction)};
}

Outputs<1> mse_loss_backward(const at::Tensor& /*grad_output*/, const at::Tensor& self, const at::Tensor& target,
                             int64_t /*reduction*/) {
  return {broadcast({self, target}, at::result_type(self, target))};
}

Outputs<1> binary_cross_entropy(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& /*weight*/,
                                int64_t reduction) {
  TORCH_CHECK(self.sizes() == target.sizes(), "Using a target size (", target.sizes(), ") that is different to the input size (",
              self.sizes(), ") is deprecated. Please ensure they have the same size.");
  return {reduction == at::Reduction::None ? like(self) : sized({}, self.options())};
}

Outputs<1> binary_cross_entropy_backward(const at::Tensor& /*grad_output*/, const at::Tensor& self, const at::Tensor& /*target*/,
                                         const OptionalTensor& /*weight*/, int64_t /*reduction*/) {
  return {like(self)};
}

Outputs<2> nll_loss2d(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight, int64_t reduction,
                      int64_t /*ignore_index*/) {
  TORCH_CHECK(self.dim() == 4, "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  TORCH_CHECK(!defined(weight) || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  return {reduction == at::Reduction::None ? sized(target.sizes(), self.options()) : sized({}, self.options()),
          sized({}, self.options())};
}

Outputs<2> multilabel_margin_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  int64_t frames = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(frames, classes, self.dim(), self, target);
  const bool whole = reduction != at::Reduction::None || target.dim() <= 1;
  return {whole ? sized({}, self.options()) : sized({frames}, self.options()), sized(target.sizes(), self.options())};
}

Outputs<1> multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& /*margin*/,
                             const OptionalTensor& weight, int64_t reduction) {
  const auto power = p.to<int>();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  int64_t frames = 0, classes = 0;
  at::native::multi_margin_loss_shape_check(frames, classes, self.dim(), self, target, weight);
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
  const bool whole = reduction != at::Reduction::None || target.dim() == 0;
  return {whole ? sized({}, self.options()) : sized({frames}, self.options())};
}

at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

Outputs<1> convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& /*bias*/, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       int64_t groups) {
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  const at::ScalarType dtype = input.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(!transposed || dtype == at::kLong || !at::isIntegralType(dtype, /*includeBool=*/true),
                              "\"transposed convolution\" not implemented for '", dtype, "'");
  for (size_t axis = 0; axis < dilation.size(); ++axis) {
    TORCH_CHECK(dilation[axis] > 0, "non-positive dilation is not supported");
    TORCH_CHECK(!transposed || output_padding[axis] < std::max(stride[axis], dilation[axis]),
                "output padding must be smaller than either stride or dilation, but got output_padding: ", output_padding,
                " stride: ", stride, " dilation: ", dilation);
  }
  const auto sizes =
      transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride, dilation, groups)
                 : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  Output output = sized(sizes, input.options());
  output.options = output.options.memory_format(convolution_format(input, weight));
  return {output};
}

Outputs<3> batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training, double /*momentum*/,
                      double /*eps*/) {
  check_mixed_dtypes(input, {weight, bias, running_mean, running_var});
  TORCH_CHECK(!training || input.numel() > 0,
              "input tensor must have at least one element, but got input_sizes = ", input.sizes());
  const auto options = input.options().dtype(statistics_dtype(input, defined(weight) ? weight : running_mean));
  const Output statistics = sized({training ? input.size(1) : 0}, options);
  return {formatted_like(input), statistics, statistics};
}

Outputs<3> batch_norm_backward(const at::Tensor& /*grad_out*/, const at::Tensor& input, const OptionalTensor& weight,
                               const OptionalTensor& running_mean, const OptionalTensor& /*running_var*/,
                               const OptionalTensor& /*save_mean*/, const OptionalTensor& /*save_invstd*/, bool /*train*/,
                               double /*eps*/, std::array<bool, 3> output_mask) {
  const auto options = input.options().dtype(statistics_dtype(input, defined(weight) ? weight : running_mean));
  const Output parameter = sized({input.size(1)}, options);
  return masked(formatted_like(input), parameter, parameter, output_mask);
}

Outputs<2> batch_norm_update_stats(const at::Tensor& input, const OptionalTensor& running_mean,
                                   const OptionalTensor& /*running_var*/, double /*momentum*/) {
  const Output statistics = sized({input.size(1)}, input.options().dtype(statistics_dtype(input, running_mean)));
  return {statistics, statistics};
}

Outputs<2> weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const at::ScalarType dtype = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  Output norms = sized(g.sizes(), g.options().dtype(dtype));
  norms.strides = Sizes(g.strides());
  return {sized(v.sizes(), v.options()), norms};
}

Outputs<2> weight_norm_backward(const at::Tensor& /*grad_w*/, const at::Tensor& saved_v, const at::Tensor& saved_g,
                                const at::Tensor& /*saved_norms*/, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == saved_v.dim() - 1, "fused kernels can only be applied for first or last dim");
  return {sized(saved_v.sizes(), saved_v.options()), sized(saved_g.sizes(), saved_g.options())};
}

Outputs<3> layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                      const OptionalTensor& bias, double /*eps*/) {
  const auto rank = static_cast<int64_t>(normalized_shape.size());
  TORCH_CHECK(rank >= 1,
              "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got ",
              "normalized_shape = ", normalized_shape);
  TORCH_CHECK(!defined(weight) || weight->sizes() == normalized_shape,
              "Expected weight to be of same shape as normalized_shape, but ", "got weight of shape ",
              defined(weight) ? weight->sizes() : at::IntArrayRef{}, " and normalized_shape = ", normalized_shape);
  TORCH_CHECK(!defined(bias) || bias->sizes() == normalized_shape,
              "Expected bias to be of same shape as normalized_shape, but got ", "bias of shape ",
              defined(bias) ? bias->sizes() : at::IntArrayRef{}, " and normalized_shape = ", normalized_shape);
  TORCH_CHECK(input.dim() >= rank && input.sizes().slice(input.dim() - rank) == normalized_shape,
              "Given normalized_shape=", normalized_shape, ", expected input with shape [*, ", c10::Join(", ", normalized_shape),
              "], but got input of size", input.sizes());
  check_mixed_dtypes(input, {weight, bias});
  Output statistics = sized(input.sizes(), input.options().dtype(statistics_dtype(input, weight)));
  std::fill(statistics.sizes.end() - rank, statistics.sizes.end(), 1);
  return {sized(input.sizes(), input.options()), statistics, statistics};
}

Outputs<3> layer_norm_backward(const at::Tensor& /*grad_out*/, const at::Tensor& input, at::IntArrayRef normalized_shape,
                               const at::Tensor& /*mean*/, const at::Tensor& /*rstd*/, const OptionalTensor& weight,
                               const OptionalTensor& bias, std::array<bool, 3> output_mask) {
  const auto of = [&](const OptionalTensor& parameter) {
    return sized(normalized_shape, defined(parameter) ? parameter->options() : input.options());
  };
  return masked(sized(input.sizes(), input.options()), of(weight), of(bias), output_mask);
}

Outputs<3> group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, int64_t batch,
                      int64_t channels, int64_t pixels, int64_t group, double /*eps*/) {
  TORCH_CHECK(input.numel() == batch * channels * pixels, "Expected X.numel() == N * C * HxW to be true, but got false.");
  TORCH_CHECK(!defined(weight) || (weight->dim() == 1 && weight->numel() == channels),
              "Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape ",
              defined(weight) ? weight->sizes() : at::IntArrayRef{}, " and input of shape ", input.sizes());
  TORCH_CHECK(input.is_contiguous(input.suggest_memory_format()), "Expected X.is_contiguous(memory_format) to be true, but got ",
              "false.");
  check_mixed_dtypes(input, {weight, bias});
  const Output statistics = sized({batch, group}, input.options().dtype(statistics_dtype(input, weight)));
  return {formatted_like(input), statistics, statistics};
}

Outputs<3> group_norm_backward(const at::Tensor& /*grad_out*/, const at::Tensor& input, const at::Tensor& /*mean*/,
                               const at::Tensor& /*rstd*/, const OptionalTensor& weight, int64_t /*batch*/, int64_t channels,
                               int64_t /*pixels*/, int64_t /*group*/, std::array<bool, 3> output_mask) {
  const Output parameter = sized({channels}, defined(weight) ? weight->options() : input.options());
  return masked(formatted_like(input), parameter, parameter, output_mask);
}

Outputs<1> im2col(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride) {
  check_pairs({{"kernel_size", kernel_size}, {"dilation", dilation}, {"padding", padding}, {"stride", stride}});
  at::native::im2col_shape_check(self, at::Tensor(), kernel_size[0], kernel_size[1], dilation[0], dilation[1], padding[0],
                                 padding[1], stride[0], stride[1]);
  int64_t columns = 1;
  for (int64_t axis = 0; axis < 2; ++axis) {
    const int64_t span = dilation[axis] * (kernel_size[axis] - 1) + 1;
    columns *= (self.size(axis - 2) + 2 * padding[axis] - span) / stride[axis] + 1;
  }
  Sizes sizes(self.sizes().slice(0, self.dim() - 3));
  sizes.push_back(self.size(-3) * kernel_size[0] * kernel_size[1]);
  sizes.push_back(columns);
  return {sized(sizes, self.options())};
}

Outputs<1> col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  check_pairs({{"output_size", output_size},
               {"kernel_size", kernel_size},
               {"dilation", dilation},
               {"padding", padding},
               {"stride", stride}});
  at::native::col2im_shape_check(self, at::Tensor(), output_size[0], output_size[1], kernel_size[0], kernel_size[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0], stride[1]);
  Sizes sizes(self.sizes().slice(0, self.dim() - 2));
  sizes.push_back(self.size(-2) / (kernel_size[0] * kernel_size[1]));
  sizes.append(output_size.begin(), output_size.end());
  return {sized(sizes, self.options())};
}

Outputs<1> adaptive_avg_pool(const at::Tensor& self, at::IntArrayRef output_size) {
  const auto rank = static_cast<int64_t>(output_size.size());
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "adaptive_avg_pool", rank, "d(): Expected ", rank + 1, "D or ",
              rank + 2, "D tensor, but got ", self.sizes());
  for (int64_t dim = self.dim() - rank; dim < self.dim(); ++dim) {
    TORCH_CHECK(self.size(dim) > 0, "adaptive_avg_pool", rank,
                "d(): Expected input to have non-zero size for non-batch dimensions, ", "but input has sizes ", self.sizes(),
                " with dimension ", dim, " being empty");
  }
  Output output = rank == 2 ? formatted_like(self) : sized(self.sizes(), self.options());
  std::copy(output_size.begin(), output_size.end(), output.sizes.end() - rank);
  return {output};
}

namespace {

void check_pooled_gradient(const at::Tensor& grad_output, const at::Tensor& self, int64_t rank) {
  for (int64_t dim = 1; dim < grad_output.dim(); ++dim) {
    TORCH_CHECK(grad_output.size(dim) > 0, "adaptive_avg_pool", rank,
                "d_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has sizes ",
                grad_output.sizes(), " with dimension ", dim, " being empty");
  }
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "adaptive_avg_pool", rank, "d_backward(): Expected ", rank + 1,
              "D or ", rank + 2, "D tensor, but got ", self.sizes());
  TORCH_CHECK(self.dim() == grad_output.dim(), "Expected dimensions ", self.dim(), " for `grad_output` but got dimensions ",
              grad_output.dim());
  TORCH_CHECK(self.dtype() == grad_output.dtype(), "expected dtype ", self.dtype(), " for `grad_output` but got dtype ",
              grad_output.dtype());
}

}  // namespace

Outputs<1> adaptive_avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_pooled_gradient(grad_output, self, 2);
  return {formatted_like(self)};
}

Outputs<1> adaptive_avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_pooled_gradient(grad_output, self, 3);
  return {sized(self.sizes(), self.options())};
}

Outputs<3> lstm_cell(const at::Tensor& input_gates, const at::Tensor& /*hidden_gates*/, const at::Tensor& cx,
                     const OptionalTensor& /*input_bias*/, const OptionalTensor& /*hidden_bias*/) {
  const Output state = sized(cx.sizes(), cx.options());
  return {state, state, sized(input_gates.sizes(), input_gates.options())};
}

// ---- linear algebra ----

Outputs<1> columns(const at::Tensor& self, const at::Tensor& /*A*/, bool /*upper*/) {
  Output output = sized(self.sizes(), self.options());
  output.strides = Sizes(at::native::batched_matrix_contiguous_strides(self.sizes(), /*f_contig=*/true));
  return {output};
}

Outputs<1> matrix_exp(const at::Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  return {self.size(-1) > 1 ? sized(self.sizes(), self.options()) : like(self)};
}

void lu(const at::Tensor& A, bool pivot) {
  TORCH_CHECK(pivot || A.numel() == 0, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
}

}  // namespace infer
}  // namespace torch_npu
