// The engine: runs elementwise operations on few elements, and thin products, without the overhead of ATen, or returns false.
#pragma once

#include "ops/objects/objects.h"

namespace softnpu::ops::engine {

// The functions that a row of the device table names with `engine`. Returning false is cheap. call.h is the contract.
using Try = bool(const TensorView* tensors, int tensor_count, const at::Scalar* scalars);

// The comments name the host scalars. An s at the end of a name: the second operand is a host scalar.
Try try_add, try_sub, try_mul, try_div;      // add and sub: alpha
Try try_adds, try_subs, try_muls, try_divs;  // adds and subs: other, alpha
Try try_lerps;                               // weight
Try try_addcmul, try_addcdiv;                // value
Try try_maximum, try_minimum;
Try try_clamp;       // minimum, maximum: both are given
Try try_pows;        // exponent: only 2 and 3
Try try_leaky_relu;  // slope

Try try_eq, try_ne, try_lt, try_le, try_gt, try_ge;
Try try_eqs, try_nes, try_lts, try_les, try_gts, try_ges;

Try try_neg, try_abs, try_relu, try_reciprocal, try_floor, try_ceil, try_trunc, try_round;
Try try_threshold_backward;  // threshold

Try try_where;
Try try_copy;  // the output comes first
Try try_cast;
Try try_cat;  // the output comes first
Try try_fill, try_zero, try_one;

// Products in half precision with at most kMostThinRows rows or columns on one side (thin_product.cpp).
Try try_mm, try_bmm, try_mv, try_dot;
Try try_addmm;  // beta, alpha
Try try_addmv;  // alpha, beta

}  // namespace softnpu::ops::engine
