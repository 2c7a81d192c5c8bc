// What every try_ function does: find the output, see that types suit, turn host scalars into the loop's types, walk.
//
// A try_ function gets the tensors and scalars of an aclnn function in the order of its parameters. An in-place function has no
// tensor for the output: it is the first input. False means that nothing was written and that ATen has to take the call.
#pragma once

#include <c10/core/Scalar.h>

#include <initializer_list>

#include "ops/engine/layout.h"

namespace softnpu::ops::engine {

// -1 where the engine has no such type.
int type_of(aclDataType dtype);

inline const TensorView& output(const TensorView* tensors, int tensor_count, int inputs) {
  return tensor_count > inputs ? tensors[inputs] : tensors[0];
}

// Puts `scalar` into values[index] as ATen would convert it next to a tensor of type `dtype`. False where ATen would promote,
// complain or round: complex numbers, fractions next to integers, numbers out of range.
bool set_value(const at::Scalar& scalar, aclDataType dtype, int index, Values& values);

// Whether the value is the same in `dtype`: half precision has few of them.
bool exact_in(const at::Scalar& scalar, aclDataType dtype);

// All operands have one type.
bool run(Op op, const TensorView& out, std::initializer_list<const TensorView*> inputs, const Values& values = {});

// The inputs have one type, the output is bool.
bool run_truth(Op op, const TensorView& out, std::initializer_list<const TensorView*> inputs, const Values& values = {});

}  // namespace softnpu::ops::engine
