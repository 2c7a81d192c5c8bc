#include "ops/objects/dtype.h"

#include "runtime/base/status.h"

namespace softnpu::ops {

std::string name_of(aclDataType type) {
  switch (scalar_type_of(type)) {
    case at::ScalarType::Float:
      return "float32";
    case at::ScalarType::Half:
      return "float16";
    case at::ScalarType::BFloat16:
      return "bfloat16";
    case at::ScalarType::Double:
      return "float64";
    case at::ScalarType::Char:
      return "int8";
    case at::ScalarType::Byte:
      return "uint8";
    case at::ScalarType::Short:
      return "int16";
    case at::ScalarType::Int:
      return "int32";
    case at::ScalarType::Long:
      return "int64";
    case at::ScalarType::UInt16:
      return "uint16";
    case at::ScalarType::UInt32:
      return "uint32";
    case at::ScalarType::UInt64:
      return "uint64";
    case at::ScalarType::Bool:
      return "bool";
    case at::ScalarType::ComplexHalf:
      return "complex32";
    case at::ScalarType::ComplexFloat:
      return "complex64";
    case at::ScalarType::ComplexDouble:
      return "complex128";
    case at::ScalarType::Float8_e5m2:
      return "float8_e5m2";
    case at::ScalarType::Float8_e4m3fn:
      return "float8_e4m3fn";
    case at::ScalarType::Float8_e8m0fnu:
      return "float8_e8m0fnu";
    case at::ScalarType::Float8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case at::ScalarType::Float8_e5m2fnuz:
      return "float8_e5m2fnuz";
    default:
      return text("aclDataType ", int(type));
  }
}

}  // namespace softnpu::ops
