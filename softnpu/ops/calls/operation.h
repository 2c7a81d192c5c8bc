// The description of an aclnn function, which codegen/device_ops.py writes: parameters, kernels and checks of phase one.
//
//   const Operation& operation = *executor.operation;
//   for (int i = 0; i < operation.parameter_count; ++i) use(operation.parameters[i].name);
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/checks/rules.h"
#include "ops/objects/objects.h"
#include "runtime/driver.h"

namespace softnpu::ops {

class Arguments;

enum class ParameterKind : uint8_t {
  kTensor,
  kScalar,
  kValue,  // a number, flag, data type or string
  kTensorList,
  kScalarList,
  kIntArray,
  kFloatArray,
  kBoolArray,
};

struct ParameterInfo {
  const char* name;
  ParameterKind kind;
  bool written = false;
  bool optional = false;           // may be null
  bool optional_elements = false;  // elements of the list may be null

  bool is_tensor() const { return kind == ParameterKind::kTensor || kind == ParameterKind::kTensorList; }
  // Whether the kernel reads the value that the client gives. aclnn names outputs that are read too selfRef, varRef and so on.
  bool is_read() const {
    const std::string_view text = name;
    return !written || text.ends_with("Ref") || text == "self";
  }
};

enum class ShapeRule : uint8_t {
  kNone,
  kBroadcast,      // every output has the common shape of the inputs
  kBroadcastInto,  // every tensor broadcasts to every output
  kSame,           // every tensor has the shape of the first output
};

// The layouts of outputs that a kernel can write. For an output of another layout the kernel gets a dense copy.
enum class OutputLayout : uint8_t {
  kAny,
  kWithoutGaps,  // a kernel that resizes its output before it checks the shape would write between the elements
  kDense,        // the kernel writes as if its outputs were dense
};

// How a function computes in half precision: its kernel gets float32 copies of the tensors (widening.h).
struct Widening {
  bool unless_native;   // not for types that the processor multiplies itself
  bool mixed;           // the kernel takes half-precision and float32 tensors together
  bool outputs;         // the kernel writes its outputs in place, so they need float32 copies too. Others convert when they store
  uint64_t parts;       // one bit per single tensor: a large call runs in parts of their first dimension; 0: it runs as a whole
  uint64_t broadcasts;  // those of `parts` that are split only if they have the rank and first size of the others
};

// One constant per function.
struct Operation {
  SoftnpuTaskKind task;  // its name is the function's
  const ParameterInfo* parameters;
  int parameter_count;
  int tensor_count;                // parameters of kind kTensor
  int scalar_count;                // parameters of kind kScalar
  void (*run)(const Arguments&);   // the kernel; throws on failure
  void (*meta)(const Arguments&);  // the same for tensors without data; null if ATen has no such function
  bool (*engine)(const TensorView* tensors, int tensor_count, const at::Scalar* scalars);  // false: call run(); may be null
  uint64_t dtypes;  // allowed types of the first tensor, one bit per aclDataType; 0: any
  bool promotes;    // it is enough if one tensor has an allowed type
  ShapeRule shapes;
  const Rules* rules;        // null if the row has none
  const Widening* widening;  // null if the kernel gets tensors of half precision as they are
  bool sync;
  OutputLayout outputs;
  bool heavy;        // an element takes several times as long as in an elementwise kernel
  bool elementwise;  // an input may be the same view as an output: each element is read before it is written
};

}  // namespace softnpu::ops
