// Operations on lists of tensors in one launch. Small tensors use the loops of the engine.
#include <ATen/ScalarOps.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/div.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>

#include "kernels.h"
#include "ops/engine/engine.h"
#include "ops/engine/view.h"

namespace softnpu::ops::kernels {
namespace {

using at::native::wrapped_scalar_tensor;  // out= overloads that take a number compute a new tensor and copy it

using engine::Try;
using engine::view_of;

at::Tensor& writable(const at::Tensor& tensor) { return const_cast<at::Tensor&>(tensor); }

void check_lengths(at::TensorList out, std::initializer_list<size_t> lengths) {
  for (size_t length : lengths) TORCH_CHECK(length == out.size(), "a list has ", length, " elements, out has ", out.size());
}

template <class F>
void each(at::TensorList x, at::TensorList out, F f) {
  check_lengths(out, {x.size()});
  for (size_t i = 0; i < out.size(); ++i) f(x[i], writable(out[i]));
}

// `attempt` may be null.
template <class F>
void each_scalar(at::TensorList x, at::TensorList out, Try* attempt, std::initializer_list<at::Scalar> scalars, F f) {
  each(x, out, [&](const at::Tensor& a, at::Tensor& result) {
    const TensorView views[] = {view_of(a), view_of(result)};
    if (!attempt || !attempt(views, 2, scalars.begin())) f(a, result);
  });
}

template <class F>
void each_pair(at::TensorList x1, at::TensorList x2, at::TensorList out, Try* attempt, std::initializer_list<at::Scalar> scalars,
               F f) {
  check_lengths(out, {x1.size(), x2.size()});
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorView views[] = {view_of(x1[i]), view_of(x2[i]), view_of(out[i])};
    if (!attempt || !attempt(views, 3, scalars.begin())) f(x1[i], x2[i], writable(out[i]));
  }
}

template <class F>
void each_triple(at::TensorList x1, at::TensorList x2, at::TensorList x3, at::TensorList out, Try* attempt,
                 const at::Scalar& value, F f) {
  check_lengths(out, {x1.size(), x2.size(), x3.size()});
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorView views[] = {view_of(x1[i]), view_of(x2[i]), view_of(x3[i]), view_of(out[i])};
    if (!attempt(views, 4, &value)) f(x1[i], x2[i], x3[i], writable(out[i]), value);
  }
}

// One number for each element of the lists.
at::Scalar scalar_at(const at::Tensor& scalars, size_t i) { return scalars.select(0, int64_t(i)).item(); }

}  // namespace

void foreach_abs(at::TensorList x, at::TensorList out) {
  each_scalar(x, out, engine::try_abs, {}, [](const at::Tensor& a, at::Tensor& result) { at::abs_out(result, a); });
}

void foreach_acos(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::acos_out(result, a); });
}

void foreach_asin(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::asin_out(result, a); });
}

void foreach_atan(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::atan_out(result, a); });
}

void foreach_cos(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::cos_out(result, a); });
}

void foreach_cosh(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::cosh_out(result, a); });
}

void foreach_erf(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::erf_out(result, a); });
}

void foreach_erfc(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::erfc_out(result, a); });
}

void foreach_exp(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::exp_out(result, a); });
}

void foreach_expm1(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::expm1_out(result, a); });
}

void foreach_log(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::log_out(result, a); });
}

void foreach_log10(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::log10_out(result, a); });
}

void foreach_log1p(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::log1p_out(result, a); });
}

void foreach_log2(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::log2_out(result, a); });
}

void foreach_neg(at::TensorList x, at::TensorList out) {
  each_scalar(x, out, engine::try_neg, {}, [](const at::Tensor& a, at::Tensor& result) { at::neg_out(result, a); });
}

void foreach_reciprocal(at::TensorList x, at::TensorList out) {
  each_scalar(x, out, engine::try_reciprocal, {}, [](const at::Tensor& a, at::Tensor& result) { at::reciprocal_out(result, a); });
}

void foreach_sigmoid(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::sigmoid_out(result, a); });
}

void foreach_sign(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::sign_out(result, a); });
}

void foreach_sin(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::sin_out(result, a); });
}

void foreach_sinh(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::sinh_out(result, a); });
}

void foreach_sqrt(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::sqrt_out(result, a); });
}

void foreach_tan(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::tan_out(result, a); });
}

void foreach_tanh(at::TensorList x, at::TensorList out) {
  each(x, out, [](const at::Tensor& a, at::Tensor& result) { at::tanh_out(result, a); });
}

void foreach_copy(at::TensorList x, at::TensorList out) {
  each_scalar(x, out, engine::try_cast, {}, [](const at::Tensor& a, at::Tensor& result) { result.copy_(a); });
}

void foreach_zero(at::TensorList x) {
  for (const at::Tensor& tensor : x) {
    const TensorView view = view_of(tensor);
    if (!engine::try_zero(&view, 1, nullptr)) tensor.zero_();
  }
}

void foreach_add_list_v2(at::TensorList x1, at::TensorList x2, const at::Scalar& alpha, at::TensorList out) {
  each_pair(x1, x2, out, engine::try_add, {alpha},
            [&](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::add_out(result, a, b, alpha); });
}

void foreach_add_list(at::TensorList x1, at::TensorList x2, const at::Tensor& alpha, at::TensorList out) {
  foreach_add_list_v2(x1, x2, alpha.item(), out);
}

void foreach_add_scalar_v2(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each_scalar(x, out, engine::try_adds, {scalar, 1},
              [&](const at::Tensor& a, at::Tensor& result) { at::add_out(result, a, wrapped_scalar_tensor(scalar)); });
}

void foreach_sub_list_v2(at::TensorList x1, at::TensorList x2, const at::Scalar& alpha, at::TensorList out) {
  each_pair(x1, x2, out, engine::try_sub, {alpha},
            [&](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::sub_out(result, a, b, alpha); });
}

void foreach_sub_list(at::TensorList x1, at::TensorList x2, const at::Tensor& alpha, at::TensorList out) {
  foreach_sub_list_v2(x1, x2, alpha.item(), out);
}

void foreach_sub_scalar_v2(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each_scalar(x, out, engine::try_subs, {scalar, 1},
              [&](const at::Tensor& a, at::Tensor& result) { at::sub_out(result, a, wrapped_scalar_tensor(scalar)); });
}

void foreach_mul_list(at::TensorList x1, at::TensorList x2, at::TensorList out) {
  each_pair(x1, x2, out, engine::try_mul, {},
            [](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::mul_out(result, a, b); });
}

void foreach_mul_scalar_v2(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each_scalar(x, out, engine::try_muls, {scalar},
              [&](const at::Tensor& a, at::Tensor& result) { at::mul_out(result, a, wrapped_scalar_tensor(scalar)); });
}

void foreach_div_list(at::TensorList x1, at::TensorList x2, at::TensorList out) {
  each_pair(x1, x2, out, engine::try_div, {},
            [](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::div_out(result, a, b); });
}

void foreach_div_scalar_v2(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each_scalar(x, out, engine::try_divs, {scalar},
              [&](const at::Tensor& a, at::Tensor& result) { at::div_out(result, a, wrapped_scalar_tensor(scalar)); });
}

void foreach_maximum_list(at::TensorList x1, at::TensorList x2, at::TensorList out) {
  each_pair(x1, x2, out, nullptr, {},
            [](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::maximum_out(result, a, b); });
}

void foreach_maximum_scalar_v2(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each(x, out, [&](const at::Tensor& a, at::Tensor& result) { at::clamp_min_out(result, a, scalar); });
}

void foreach_minimum_list(at::TensorList x1, at::TensorList x2, at::TensorList out) {
  each_pair(x1, x2, out, nullptr, {},
            [](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::minimum_out(result, a, b); });
}

void foreach_minimum_scalar_v2(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each(x, out, [&](const at::Tensor& a, at::Tensor& result) { at::clamp_max_out(result, a, scalar); });
}

void foreach_pow_list(at::TensorList x1, at::TensorList x2, at::TensorList out) {
  each_pair(x1, x2, out, nullptr, {},
            [](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::pow_out(result, a, b); });
}

void foreach_pow_scalar_v2(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each(x, out, [&](const at::Tensor& a, at::Tensor& result) { at::pow_out(result, a, scalar); });
}

void foreach_pow_scalar_and_tensor(const at::Scalar& scalar, at::TensorList x, at::TensorList out) {
  each(x, out, [&](const at::Tensor& a, at::Tensor& result) { at::pow_out(result, scalar, a); });
}

void foreach_add_scalar(at::TensorList x, const at::Tensor& scalar, at::TensorList out) {
  foreach_add_scalar_v2(x, scalar.item(), out);
}

void foreach_add_scalar_list(at::TensorList x, at::ArrayRef<at::Scalar> scalars, at::TensorList out) {
  check_lengths(out, {x.size(), scalars.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_add_scalar_v2(x.slice(i, 1), scalars[i], out.slice(i, 1));
}

void foreach_sub_scalar(at::TensorList x, const at::Tensor& scalar, at::TensorList out) {
  foreach_sub_scalar_v2(x, scalar.item(), out);
}

void foreach_sub_scalar_list(at::TensorList x, at::ArrayRef<at::Scalar> scalars, at::TensorList out) {
  check_lengths(out, {x.size(), scalars.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_sub_scalar_v2(x.slice(i, 1), scalars[i], out.slice(i, 1));
}

void foreach_mul_scalar(at::TensorList x, const at::Tensor& scalar, at::TensorList out) {
  foreach_mul_scalar_v2(x, scalar.item(), out);
}

void foreach_mul_scalar_list(at::TensorList x, at::ArrayRef<at::Scalar> scalars, at::TensorList out) {
  check_lengths(out, {x.size(), scalars.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_mul_scalar_v2(x.slice(i, 1), scalars[i], out.slice(i, 1));
}

void foreach_div_scalar(at::TensorList x, const at::Tensor& scalar, at::TensorList out) {
  foreach_div_scalar_v2(x, scalar.item(), out);
}

void foreach_div_scalar_list(at::TensorList x, at::ArrayRef<at::Scalar> scalars, at::TensorList out) {
  check_lengths(out, {x.size(), scalars.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_div_scalar_v2(x.slice(i, 1), scalars[i], out.slice(i, 1));
}

void foreach_maximum_scalar(at::TensorList x, const at::Tensor& scalar, at::TensorList out) {
  foreach_maximum_scalar_v2(x, scalar.item(), out);
}

void foreach_maximum_scalar_list(at::TensorList x, at::ArrayRef<at::Scalar> scalars, at::TensorList out) {
  check_lengths(out, {x.size(), scalars.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_maximum_scalar_v2(x.slice(i, 1), scalars[i], out.slice(i, 1));
}

void foreach_minimum_scalar(at::TensorList x, const at::Tensor& scalar, at::TensorList out) {
  foreach_minimum_scalar_v2(x, scalar.item(), out);
}

void foreach_minimum_scalar_list(at::TensorList x, at::ArrayRef<at::Scalar> scalars, at::TensorList out) {
  check_lengths(out, {x.size(), scalars.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_minimum_scalar_v2(x.slice(i, 1), scalars[i], out.slice(i, 1));
}

void foreach_pow_scalar(at::TensorList x, const at::Tensor& scalar, at::TensorList out) {
  foreach_pow_scalar_v2(x, scalar.item(), out);
}

void foreach_pow_scalar_list(at::TensorList x, at::ArrayRef<at::Scalar> scalars, at::TensorList out) {
  check_lengths(out, {x.size(), scalars.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_pow_scalar_v2(x.slice(i, 1), scalars[i], out.slice(i, 1));
}

void foreach_lerp_list(at::TensorList x1, at::TensorList x2, at::TensorList weight, at::TensorList out) {
  check_lengths(out, {x1.size(), x2.size(), weight.size()});
  for (size_t i = 0; i < out.size(); ++i) at::lerp_out(writable(out[i]), x1[i], x2[i], weight[i]);
}

void foreach_lerp_scalar(at::TensorList x1, at::TensorList x2, const at::Scalar& weight, at::TensorList out) {
  each_pair(x1, x2, out, engine::try_lerps, {weight},
            [&](const at::Tensor& a, const at::Tensor& b, at::Tensor& result) { at::lerp_out(result, a, b, weight); });
}

void foreach_lerp_scalar_list(at::TensorList x1, at::TensorList x2, at::ArrayRef<at::Scalar> weights, at::TensorList out) {
  check_lengths(out, {x1.size(), x2.size(), weights.size()});
  for (size_t i = 0; i < out.size(); ++i) foreach_lerp_scalar(x1.slice(i, 1), x2.slice(i, 1), weights[i], out.slice(i, 1));
}

void foreach_addcmul_scalar_v2(at::TensorList x1, at::TensorList x2, at::TensorList x3, const at::Scalar& scalar,
                               at::TensorList out) {
  each_triple(x1, x2, x3, out, engine::try_addcmul, scalar,
              [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, at::Tensor& result, const at::Scalar& value) {
                at::addcmul_out(result, a, b, c, value);
              });
}

void foreach_addcmul_scalar(at::TensorList x1, at::TensorList x2, at::TensorList x3, const at::Tensor& scalar,
                            at::TensorList out) {
  foreach_addcmul_scalar_v2(x1, x2, x3, scalar.item(), out);
}

void foreach_addcmul_scalar_list(at::TensorList x1, at::TensorList x2, at::TensorList x3, const at::Tensor& scalars,
                                 at::TensorList out) {
  check_lengths(out, {x1.size(), x2.size(), x3.size(), size_t(scalars.numel())});
  for (size_t i = 0; i < out.size(); ++i) {
    foreach_addcmul_scalar_v2(x1.slice(i, 1), x2.slice(i, 1), x3.slice(i, 1), scalar_at(scalars, i), out.slice(i, 1));
  }
}

void foreach_addcdiv_scalar_v2(at::TensorList x1, at::TensorList x2, at::TensorList x3, const at::Scalar& scalar,
                               at::TensorList out) {
  each_triple(x1, x2, x3, out, engine::try_addcdiv, scalar,
              [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, at::Tensor& result, const at::Scalar& value) {
                at::addcdiv_out(result, a, b, c, value);
              });
}

void foreach_addcdiv_scalar(at::TensorList x1, at::TensorList x2, at::TensorList x3, const at::Tensor& scalar,
                            at::TensorList out) {
  foreach_addcdiv_scalar_v2(x1, x2, x3, scalar.item(), out);
}

void foreach_addcdiv_scalar_list(at::TensorList x1, at::TensorList x2, at::TensorList x3, const at::Tensor& scalars,
                                 at::TensorList out) {
  check_lengths(out, {x1.size(), x2.size(), x3.size(), size_t(scalars.numel())});
  for (size_t i = 0; i < out.size(); ++i) {
    foreach_addcdiv_scalar_v2(x1.slice(i, 1), x2.slice(i, 1), x3.slice(i, 1), scalar_at(scalars, i), out.slice(i, 1));
  }
}

void foreach_norm(at::TensorList x, const at::Scalar& scalar, at::TensorList out) {
  each(x, out, [&](const at::Tensor& a, at::Tensor& result) {
    at::linalg_vector_norm_out(result, a, scalar, at::OptionalIntArrayRef(), false, std::nullopt);
  });
}

// The numbers of the modes are those of the conversion instruction of the chip.
void foreach_round(at::TensorList x, const at::Scalar& roundMode, at::TensorList out) {
  const int64_t mode = roundMode.toLong();
  each(x, out, [&](const at::Tensor& a, at::Tensor& result) {
    switch (mode) {
      case 1:
        at::round_out(result, a);
        return;
      case 2:
        at::floor_out(result, a);
        return;
      case 3:
        at::ceil_out(result, a);
        return;
      case 5:
        at::trunc_out(result, a);
        return;
      case 7:
        at::frac_out(result, a);
        return;
      default:
        TORCH_CHECK(false, "roundMode has to be 1 (round), 2 (floor), 3 (ceil), 5 (trunc) or 7 (frac), it is ", mode);
    }
  });
}

}  // namespace softnpu::ops::kernels
