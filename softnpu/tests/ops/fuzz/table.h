// The table of aclnn functions for the fuzzer. codegen/aclnn_fuzz.py writes it from softnpu/ops/aclnn.yaml.
#pragma once

#include <cstdint>
#include <span>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

namespace softnpu::fuzz {

enum class Kind : uint8_t {
  kTensor,
  kTensorList,
  kScalar,
  kScalarList,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kInt64,
  kInt8,
  kInt32,
  kUint64,
  kBool,
  kFloat,
  kDouble,
  kString,
  kDataType,
};

struct Parameter {
  const char* name;
  Kind kind;
  bool written = false;
  bool optional = false;           // may be null
  bool optional_elements = false;  // elements of the list may be null
};

// An argument of `first`.
union Value {
  aclTensor* tensor;
  aclTensorList* tensors;
  aclScalar* scalar;
  aclScalarList* scalars;
  aclIntArray* int_array;
  aclFloatArray* float_array;
  aclBoolArray* bool_array;
  const char* text;
  int64_t integer;
  double real;
};

struct Function {
  const char* name;
  const char* header;  // "aclnnop/aclnn_add.h"
  std::span<const Parameter> parameters;
  aclnnStatus (*first)(const Value* values, uint64_t* size, aclOpExecutor** executor);  // phase one
  aclnnStatus (*second)(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream);
  bool sync;  // the shape of its outputs depends on data
};

std::span<const Function> functions();

// Calls that must succeed, in the form of describe() (case.h).
std::span<const char* const> examples();

}  // namespace softnpu::fuzz
