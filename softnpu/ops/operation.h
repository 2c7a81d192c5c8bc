// What the generator knows about an aclnn function: its parameters, its kernels and what phase one has to check.
#pragma once

#include <cstdint>

#include "ops/objects.h"
#include "ops/rules.h"
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
};

enum class ShapeRule : uint8_t {
  kNone,
  kBroadcast,      // every output has the common shape of the inputs
  kBroadcastInto,  // every tensor broadcasts to every output
  kSame,           // every tensor has the shape of the first output
};

// Which outputs a kernel can write; where one is of another kind, it gets a dense stand-in.
enum class OutputLayout : uint8_t {
  kAny,
  kWithoutGaps,  // a kernel that changes the shape of its output before it finds that wrong would write between the elements
  kDense,        // the kernel writes as if its outputs were dense
};

// One constant per function.
struct Operation {
  SoftnpuTaskKind task;  // its name is the function's
  const ParameterInfo* parameters;
  int parameter_count;
  int tensor_count;                // parameters of kind kTensor
  int scalar_count;                // parameters of kind kScalar
  void (*run)(const Arguments&);   // the kernel; throws what went wrong
  void (*meta)(const Arguments&);  // the same on tensors without data, null where ATen has no such function
  bool (*engine)(const TensorView* tensors, int tensor_count, const at::Scalar* scalars);  // true: it did the work; may be null
  uint64_t dtypes;  // one bit per aclDataType that the first tensor may have; 0 stands for any
  bool promotes;    // one tensor of such a type is enough
  ShapeRule shapes;
  const Rules* rules;  // null if the row has none
  bool sync;
  OutputLayout outputs;
  bool heavy;  // an element costs several times what it costs an elementwise kernel
};

}  // namespace softnpu::ops
