// The parts of a try_ function: find the output, check the types, convert host scalars to the types of the loop, run the loop.
//
// A try_ function gets the tensors and scalars of an aclnn function in the order of its parameters. An in-place function has no
// tensor for the output, which is the first input. False means that nothing was written and that ATen must run the operation.
#pragma once

#include <c10/core/Scalar.h>

#include <initializer_list>

#include "ops/engine/layout.h"

namespace softnpu::ops::engine {

// -1 if the engine has no such type.
int type_of(aclDataType dtype);

inline const TensorView& output(const TensorView* tensors, int tensor_count, int inputs) {
  return tensor_count > inputs ? tensors[inputs] : tensors[0];
}

// Stores `scalar` in values[index], converted as ATen does for a tensor of type `dtype`. False if ATen would promote the type,
// refuse the number or round it: complex numbers, fractions for integer tensors, numbers out of range.
bool set_value(const at::Scalar& scalar, aclDataType dtype, int index, Values& values);

// Whether `dtype` holds the exact value; half precision often does not.
bool exact_in(const at::Scalar& scalar, aclDataType dtype);

// All operands have one type.
bool run(Op op, const TensorView& out, std::initializer_list<const TensorView*> inputs, const Values& values = {});

// The inputs have one type, the output is bool.
bool run_truth(Op op, const TensorView& out, std::initializer_list<const TensorView*> inputs, const Values& values = {});

}  // namespace softnpu::ops::engine
