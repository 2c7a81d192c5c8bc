// Data types of the ABI as data types of ATen.
//
//   at::ScalarType dtype = scalar_type_of(ACL_BF16);   // at::kBFloat16
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <optional>

#include "acl/acl_base.h"

namespace softnpu::ops {

inline constexpr int kDataTypes = 64;

// Index: aclDataType. Undefined if ATen has no such type.
inline constexpr std::array<at::ScalarType, kDataTypes> kScalarTypes = [] {
  std::array<at::ScalarType, kDataTypes> types{};
  types.fill(at::ScalarType::Undefined);
  types[ACL_FLOAT] = at::ScalarType::Float;
  types[ACL_FLOAT16] = at::ScalarType::Half;
  types[ACL_INT8] = at::ScalarType::Char;
  types[ACL_INT32] = at::ScalarType::Int;
  types[ACL_UINT8] = at::ScalarType::Byte;
  types[ACL_INT16] = at::ScalarType::Short;
  types[ACL_UINT16] = at::ScalarType::UInt16;
  types[ACL_UINT32] = at::ScalarType::UInt32;
  types[ACL_INT64] = at::ScalarType::Long;
  types[ACL_UINT64] = at::ScalarType::UInt64;
  types[ACL_DOUBLE] = at::ScalarType::Double;
  types[ACL_BOOL] = at::ScalarType::Bool;
  types[ACL_COMPLEX64] = at::ScalarType::ComplexFloat;
  types[ACL_COMPLEX128] = at::ScalarType::ComplexDouble;
  types[ACL_BF16] = at::ScalarType::BFloat16;
  types[ACL_COMPLEX32] = at::ScalarType::ComplexHalf;
  types[ACL_FLOAT8_E5M2] = at::ScalarType::Float8_e5m2;
  types[ACL_FLOAT8_E4M3FN] = at::ScalarType::Float8_e4m3fn;
  types[ACL_FLOAT8_E8M0] = at::ScalarType::Float8_e8m0fnu;
  types[ACL_SOFT_FLOAT8_E4M3FNUZ] = at::ScalarType::Float8_e4m3fnuz;
  types[ACL_SOFT_FLOAT8_E5M2FNUZ] = at::ScalarType::Float8_e5m2fnuz;
  return types;
}();

// Bytes of an element. Index: aclDataType. 0 if ATen has no such type.
inline const std::array<uint8_t, kDataTypes> kItemSizes = [] {
  std::array<uint8_t, kDataTypes> sizes{};
  for (int type = 0; type < kDataTypes; ++type) {
    if (kScalarTypes[type] != at::ScalarType::Undefined) sizes[type] = uint8_t(c10::elementSize(kScalarTypes[type]));
  }
  return sizes;
}();

// Many kernels do not support these types. Phase one tries the kernel to find out (checks/argument_check.h).
inline constexpr uint64_t kRareTypes = uint64_t(1) << ACL_UINT16 | uint64_t(1) << ACL_UINT32 | uint64_t(1) << ACL_UINT64 |
                                       uint64_t(1) << ACL_COMPLEX32 | uint64_t(1) << ACL_FLOAT8_E5M2 |
                                       uint64_t(1) << ACL_FLOAT8_E4M3FN | uint64_t(1) << ACL_FLOAT8_E8M0;
inline bool is_rare(aclDataType type) { return unsigned(type) < unsigned(kDataTypes) && kRareTypes >> type & 1; }

// The same as kItemSizes, but 0 for rare types.
inline const std::array<uint8_t, kDataTypes> kUsualItemSizes = [] {
  std::array<uint8_t, kDataTypes> sizes = kItemSizes;
  for (int type = 0; type < kDataTypes; ++type) {
    if (is_rare(aclDataType(type))) sizes[type] = 0;
  }
  return sizes;
}();

inline at::ScalarType scalar_type_of(aclDataType type) {
  return unsigned(type) < unsigned(kDataTypes) ? kScalarTypes[type] : at::ScalarType::Undefined;
}

inline int64_t item_size_of(aclDataType type) { return unsigned(type) < unsigned(kDataTypes) ? kItemSizes[type] : 0; }

// "float32", or "aclDataType 29" if ATen has no such type.
std::string name_of(aclDataType type);

}  // namespace softnpu::ops
