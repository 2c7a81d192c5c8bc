#include "runtime/stream/reduce.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/base/float16.h"

namespace softnpu {
namespace {

// A storage type, and conversions from and to the type of the arithmetic.
template <typename T>
struct Plain {
  using Stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Half {
  using Stored = uint16_t;
  static float load(uint16_t value) { return float_from_half(value); }
  static uint16_t store(float value) { return half_from_float(value); }
};
struct Bfloat16 {
  using Stored = uint16_t;
  static float load(uint16_t value) { return float_from_bfloat16(value); }
  static uint16_t store(float value) { return bfloat16_from_float(value); }
};

struct Sum {
  template <typename T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));  // wraps as the hardware does
    } else {
      return a + b;
    }
  }
};
struct Max {
  template <typename T>
  static T combine(T a, T b) {
    return b > a || b != b ? b : a;  // NaN wins
  }
};
struct Min {
  template <typename T>
  static T combine(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct Equal {
  template <typename T>
  static T combine(T a, T b) {
    return T(a == b);
  }
};

template <typename Type, typename Operation>
void reduce(void* destination, const void* source, size_t count) {
  auto* to = static_cast<typename Type::Stored*>(destination);
  const auto* from = static_cast<const typename Type::Stored*>(source);
  for (size_t i = 0; i < count; ++i) to[i] = Type::store(Operation::combine(Type::load(to[i]), Type::load(from[i])));
}

template <typename Operation>
ReduceFunction for_type(aclDataType type) {
  switch (type) {
    case ACL_FLOAT:
      return reduce<Plain<float>, Operation>;
    case ACL_FLOAT16:
      return reduce<Half, Operation>;
    case ACL_BF16:
      return reduce<Bfloat16, Operation>;
    case ACL_INT8:
      return reduce<Plain<int8_t>, Operation>;
    case ACL_INT16:
      return reduce<Plain<int16_t>, Operation>;
    case ACL_INT32:
      return reduce<Plain<int32_t>, Operation>;
    case ACL_UINT32:
      return reduce<Plain<uint32_t>, Operation>;
    default:
      return nullptr;
  }
}

}  // namespace

Result<ReduceFunction> find_reduce(aclrtReduceKind kind, aclDataType type) {
  ReduceFunction function = nullptr;
  switch (kind) {
    case ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM:
      function = for_type<Sum>(type);
      break;
    case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX:
      function = for_type<Max>(type);
      break;
    case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN:
      function = for_type<Min>(type);
      break;
    case ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL:
      function = for_type<Equal>(type);
      break;
    default:
      return Status(ACL_ERROR_RT_PARAM_INVALID, text("reduction ", int(kind), " is unknown; it is one of aclrtReduceKind"));
  }
  if (function != nullptr) return function;
  return Status(ACL_ERROR_RT_PARAM_INVALID,
                text("data type ", int(type), " cannot be reduced; float, float16, bfloat16, int8, int16, int32 and uint32 can"));
}

}  // namespace softnpu
