// Reductions whose device call depends on the given dimensions.
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/infer.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

// Throws for dtypes that have no CPU kernel, although the device may compute them.
void check_dtype(const at::Tensor& self, const char* kernel) {
  const at::ScalarType dtype = self.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isFloat8Type(dtype) && !c10::isBarebonesUnsignedType(dtype), '"', kernel,
                              "\" not implemented for '", dtype, "'");
}

// ---- argmax and argmin ----

using ArgCall = void (*)(const at::Tensor&, int64_t, bool, const at::Tensor&);

// Without a dimension the flattened tensor is searched.
template <ArgCall kCall>
void search(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim, const at::Tensor& out) {
  if (dim.has_value()) return kCall(self, *dim, keepdim, out);
  check_dtype(self, kCall == &call::aclnnArgMax ? "argmax_cpu" : "argmin_cpu");
  kCall(self.reshape({-1}), 0, false, out.view(at::IntArrayRef()));
}

template <class Meta, ArgCall kCall>
at::Tensor search_new(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  const DeviceScope scope(self);
  return compute<Meta>([&](const at::Tensor& out) { search<kCall>(self, dim, keepdim, out); }, self, dim, keepdim);
}

template <class Meta, ArgCall kCall>
at::Tensor& search_out(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim, at::Tensor& out) {
  const DeviceScope scope(self);
  const auto run = [&](const at::Tensor& result) { search<kCall>(self, dim, keepdim, result); };
  return compute_into<Meta, Form::kOut>(out, run, self, dim, keepdim);
}

// ---- aminmax ----

void find_extremes(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim, const at::Tensor& min,
                   const at::Tensor& max) {
  TORCH_CHECK(!dim.has_value() || self.dim() > 0 || !self.is_complex(), "aminmax not implemented for ", self.scalar_type());
  if (dim.has_value()) return call::aclnnAminmaxDim(self, *dim, keepdim, min, max);
  call::aclnnAminmaxAll(self, min.view(at::IntArrayRef()), max.view(at::IntArrayRef()));
}

std::tuple<at::Tensor, at::Tensor> aminmax(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  const DeviceScope scope(self);
  Functional<at::meta::structured_aminmax, 2> op;
  op.meta(self, dim, keepdim);
  find_extremes(self, dim, keepdim, op.output(0), op.output(1));
  return {std::move(op.take(0)), std::move(op.take(1))};
}

std::tuple<at::Tensor&, at::Tensor&> aminmax_out(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim,
                                                 at::Tensor& min, at::Tensor& max) {
  const DeviceScope scope(self);
  Into<at::meta::structured_aminmax, 2, Form::kOut> op({min, max});
  op.meta(self, dim, keepdim);
  find_extremes(self, dim, keepdim, op.output(0), op.output(1));
  op.finish();
  return {min, max};
}

// Older names of torch.aminmax.
std::tuple<at::Tensor, at::Tensor> old_aminmax(const at::Tensor& self) { return aminmax(self, std::nullopt, false); }
std::tuple<at::Tensor, at::Tensor> old_aminmax_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
  return aminmax(self, dim, keepdim);
}

// ---- mode; ATen's own out= form accepts only devices that it names ----

std::tuple<at::Tensor&, at::Tensor&> mode_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                              at::Tensor& indices) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "expected scalar type '", self.scalar_type(), "' but got '",
              values.scalar_type(), "' for values output");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "expected scalar type 'Long' but got '", indices.scalar_type(),
              "' for indices output");
  const DeviceScope scope(self);
  if (self.dim() == 0) {  // as on the CPU, without a warning
    values.resize_({});
    indices.resize_({});
  }
  const Results<2> results(infer::mode(self, dim, keepdim), {values, indices});
  call::aclnnSoftMode(self, dim, keepdim, results.output(0), results.output(1));
  return {values, indices};
}

// ---- all and any along one dimension ----

using TruthCall = void (*)(const at::Tensor&, at::IntArrayRef, bool, const at::Tensor&);

template <class Meta, TruthCall kCall>
at::Tensor truth_new(const at::Tensor& self, int64_t dim, bool keepdim) {
  const DeviceScope scope(self);
  return compute<Meta>([&](const at::Tensor& out) { kCall(self, {dim}, keepdim, out); }, self, dim, keepdim);
}

template <class Meta, TruthCall kCall>
at::Tensor& truth_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& out) {
  const DeviceScope scope(self);
  return compute_into<Meta, Form::kOut>(
      out, [&](const at::Tensor& result) { kCall(self, {dim}, keepdim, result); }, self, dim, keepdim);
}

// ---- variance ----

struct Moments {
  Output result;
  Output mean;
  Sizes dims;
  int64_t correction;  // the device takes integers only
  double factor;       // the variance has to be multiplied by this
};

Moments prepare(const char* name, const at::Tensor& self, at::OptionalIntArrayRef dims,
                const std::optional<at::Scalar>& correction, bool keepdim) {
  const at::ScalarType dtype = self.scalar_type();
  TORCH_CHECK(at::isFloatingType(dtype) || at::isComplexType(dtype), name, " only support floating point and complex dtypes");
  const auto mask = at::native::make_dim_mask(dims, self.dim(), /*allow_empty_dims=*/false);
  const auto shape = at::native::shape_from_dim_mask(self, mask, keepdim);
  Moments moments{sized(shape, self.options().dtype(c10::toRealValueType(dtype))), sized(shape, self.options()),
                  dims.has_value() ? Sizes(*dims) : Sizes(), 0, 1};
  moments.result.casts = true;
  const double value = correction.value_or(1).toDouble();
  const auto results = static_cast<double>(c10::multiply_integers(shape));
  const double count = results == 0 ? 0 : static_cast<double>(self.numel()) / results;
  if (count - value <= 0) {
    TORCH_WARN(name, ": degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel ",
               "divided by output numel).");
  }
  moments.correction = static_cast<int64_t>(value);
  if (static_cast<double>(moments.correction) == value) return moments;
  moments.correction = 0;
  moments.factor = count / std::max(0.0, count - value);
  return moments;
}

using VarianceCall = void (*)(const at::Tensor&, at::IntArrayRef, int64_t, bool, const at::Tensor&);
using VarianceMeanCall = void (*)(const at::Tensor&, at::IntArrayRef, int64_t, bool, const at::Tensor&, const at::Tensor&);

enum class Power { kVariance, kDeviation };

template <Power kPower>
void correct(const Moments& moments, const at::Tensor& out) {
  if (moments.factor == 1) return;
  out.mul_(kPower == Power::kVariance ? moments.factor : std::sqrt(moments.factor));
}

template <VarianceCall kCall, Power kPower>
at::Tensor variance(const at::Tensor& self, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>& correction,
                    bool keepdim) {
  const DeviceScope scope(self);
  const Moments moments = prepare("std and var", self, dims, correction, keepdim);
  auto [out] = allocate(Outputs<1>{moments.result});
  kCall(self, moments.dims, moments.correction, keepdim, out);
  correct<kPower>(moments, out);
  return out;
}

template <VarianceCall kCall, Power kPower>
at::Tensor& variance_out(const at::Tensor& self, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>& correction,
                         bool keepdim, at::Tensor& out) {
  const DeviceScope scope(self);
  const Moments moments = prepare("std and var", self, dims, correction, keepdim);
  const Results<1> results(Outputs<1>{moments.result}, {out});
  kCall(self, moments.dims, moments.correction, keepdim, results.output(0));
  correct<kPower>(moments, results.output(0));
  results.finish();
  return out;
}

template <VarianceMeanCall kCall, Power kPower>
std::tuple<at::Tensor, at::Tensor> variance_mean(const at::Tensor& self, at::OptionalIntArrayRef dims,
                                                 const std::optional<at::Scalar>& correction, bool keepdim) {
  const DeviceScope scope(self);
  const Moments moments = prepare("std_mean and var_mean", self, dims, correction, keepdim);
  auto [out, mean] = allocate(Outputs<2>{moments.result, moments.mean});
  kCall(self, moments.dims, moments.correction, keepdim, out, mean);
  correct<kPower>(moments, out);
  return {std::move(out), std::move(mean)};
}

// ---- norms ----

using Norm = at::meta::structured_linalg_vector_norm;

// The device takes the dtype in which it computes: complex for complex input, although the norm is real.
auto norm_call(const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dims, bool keepdim) {
  return [&self, &ord, dims, keepdim](const at::Tensor& out) {
    const at::ScalarType dtype = self.is_complex() ? at::toComplexType(out.scalar_type()) : out.scalar_type();
    call::aclnnLinalgVectorNorm(self, ord, dims, keepdim, dtype, out);
  };
}

at::Tensor linalg_vector_norm(const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dims, bool keepdim,
                              std::optional<at::ScalarType> dtype) {
  const DeviceScope scope(self);
  return compute<Norm>(norm_call(self, ord, dims, keepdim), self, ord, dims, keepdim, dtype);
}

at::Tensor& linalg_vector_norm_out(const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dims, bool keepdim,
                                   std::optional<at::ScalarType> dtype, at::Tensor& out) {
  const DeviceScope scope(self);
  return compute_into<Norm, Form::kOut>(out, norm_call(self, ord, dims, keepdim), self, ord, dims, keepdim, dtype);
}

at::Tensor sum(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const DeviceScope scope(self);
  const bool widens = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const at::Tensor out = empty({}, dtype.value_or(widens ? at::kLong : self.scalar_type()));
  call::aclnnReduceSum(self, {}, /*keepDims=*/false, out.scalar_type(), out);
  return out;
}

at::Tensor count_nonzero(const at::Tensor& self, at::IntArrayRef dims) {
  check_dtype(self, "nonzero_count_cpu");
  return (self != 0).sum(dims);
}

// The dot product with the conjugate of the first vector.
at::Tensor vdot(const at::Tensor& self, const at::Tensor& other) {
  if (other.is_conj() && !self.is_conj()) return at::dot(self, other.conj()).conj();
  return at::dot(self.conj(), other);
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  if (self.scalar_type() != other.scalar_type()) return (self == other).all().item<bool>();  // as CUDA, unlike the CPU
  const DeviceScope scope(self);
  const at::Tensor out = empty({}, at::kBool);
  call::aclnnEqual(self, other, out);
  return out.item<bool>();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("sum", TORCH_FN(sum));
  m.impl("argmax", TORCH_FN((search_new<at::meta::structured_argmax, call::aclnnArgMax>)));
  m.impl("argmax.out", TORCH_FN((search_out<at::meta::structured_argmax, call::aclnnArgMax>)));
  m.impl("argmin", TORCH_FN((search_new<at::meta::structured_argmin, call::aclnnArgMin>)));
  m.impl("argmin.out", TORCH_FN((search_out<at::meta::structured_argmin, call::aclnnArgMin>)));
  m.impl("aminmax", TORCH_FN(aminmax));
  m.impl("aminmax.out", TORCH_FN(aminmax_out));
  m.impl("_aminmax", TORCH_FN(old_aminmax));
  m.impl("_aminmax.dim", TORCH_FN(old_aminmax_dim));
  m.impl("mode.values", TORCH_FN(mode_out));
  m.impl("any.dim", TORCH_FN((truth_new<at::meta::structured_any_dim, call::aclnnAny>)));
  m.impl("any.out", TORCH_FN((truth_out<at::meta::structured_any_dim, call::aclnnAny>)));
  m.impl("all.dim", TORCH_FN((truth_new<at::meta::structured_all_dim, call::aclnnAll>)));
  m.impl("all.out", TORCH_FN((truth_out<at::meta::structured_all_dim, call::aclnnAll>)));
  m.impl("var.correction", TORCH_FN((variance<call::aclnnVarCorrection, Power::kVariance>)));
  m.impl("var.correction_out", TORCH_FN((variance_out<call::aclnnVarCorrection, Power::kVariance>)));
  m.impl("std.correction", TORCH_FN((variance<call::aclnnStd, Power::kDeviation>)));
  m.impl("std.correction_out", TORCH_FN((variance_out<call::aclnnStd, Power::kDeviation>)));
  m.impl("var_mean.correction", TORCH_FN((variance_mean<call::aclnnVarMean, Power::kVariance>)));
  m.impl("std_mean.correction", TORCH_FN((variance_mean<call::aclnnStdMeanCorrection, Power::kDeviation>)));
  m.impl("linalg_vector_norm", TORCH_FN(linalg_vector_norm));
  m.impl("linalg_vector_norm.out", TORCH_FN(linalg_vector_norm_out));
  m.impl("count_nonzero.dim_IntList", TORCH_FN(count_nonzero));
  m.impl("vdot", TORCH_FN(vdot));
  m.impl("equal", TORCH_FN(equal));
}

}  // namespace torch_npu
