#include "ops/fuzz/case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/fuzz/random.h"

namespace softnpu::fuzz {
namespace {

// So many elements that the rows of small matrices differ.
constexpr int64_t kPatternElements = 29;

template <typename T>
void put(T value, uint8_t* bytes) {
  std::memcpy(bytes, &value, sizeof value);
}

// A float of few bits, rounded towards zero. In types without infinity, numbers that are too large become NaN.
uint32_t small_float(double value, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const uint32_t exponent_mask = (1u << exponent_bits) - 1;
  const uint32_t all_ones = (exponent_mask << mantissa_bits) | ((1u << mantissa_bits) - 1);
  if (std::isnan(value)) return sign | all_ones;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = 0;
  const double fraction = std::isinf(value) ? 0 : std::frexp(std::fabs(value), &exponent);  // 0.5 to 1
  const int biased = exponent - 1 + bias;
  if (std::isinf(value) || biased >= static_cast<int>(exponent_mask)) {
    return sign | (has_infinity ? exponent_mask << mantissa_bits : all_ones);
  }
  if (fraction == 0) return sign;
  if (biased <= 0) return sign | static_cast<uint32_t>(std::ldexp(fraction, mantissa_bits + biased));
  return sign | static_cast<uint32_t>(biased) << mantissa_bits |
         static_cast<uint32_t>(std::ldexp(fraction * 2 - 1, mantissa_bits));
}

template <typename T>
T as_integer(double value) {
  if (!(value > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

bool is_floating(int32_t dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_INT16:
    case ACL_INT32:
    case ACL_INT64:
    case ACL_UINT8:
    case ACL_UINT16:
    case ACL_UINT32:
    case ACL_UINT64:
    case ACL_BOOL:
      return false;
    default:
      return true;
  }
}

double next_number(Random& random, Fill fill, int64_t position, bool floating) {
  switch (fill) {
    case Fill::kZeros:
      return 0;
    case Fill::kOnes:
      return 1;
    case Fill::kSorted:
      return static_cast<double>(position);
    case Fill::kSpecial:
      if (random.chance(0.4)) {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        return random.pick({std::nan(""), kInfinity, -kInfinity, 1e300, -1e300, 1e38, 65504.0, 1e-300, -0.0, -1.0, 2147483648.0});
      }
      break;
    case Fill::kSmall:
      break;
  }
  return floating ? random.normal() : static_cast<double>(random.below(4));
}

}  // namespace

const char* const kTexts[] = {"none", "tanh",  "mean",  "sum",   "prod",  "amax", "amin",  "max",     "min",
                              "gels", "gelsy", "gelsd", "gelss", "floor", "",     "Mean ", "\xff\n%s"};
const int kTextCount = std::size(kTexts);

const char* const kFillNames[5] = {"small", "zeros", "ones", "sorted", "special"};
const char* const kModeNames[5] = {"", " twice", " phase one only", " without size", " without executor"};

std::span<const NamedType> named_types() {
#define NAME(name) \
  { #name, name }
  static constexpr NamedType kTypes[] = {
      NAME(ACL_DT_UNDEFINED), NAME(ACL_FLOAT),         NAME(ACL_FLOAT16),     NAME(ACL_INT8),      NAME(ACL_INT32),
      NAME(ACL_UINT8),        NAME(ACL_INT16),         NAME(ACL_UINT16),      NAME(ACL_UINT32),    NAME(ACL_INT64),
      NAME(ACL_UINT64),       NAME(ACL_DOUBLE),        NAME(ACL_BOOL),        NAME(ACL_STRING),    NAME(ACL_COMPLEX64),
      NAME(ACL_COMPLEX128),   NAME(ACL_BF16),          NAME(ACL_INT4),        NAME(ACL_COMPLEX32), NAME(ACL_HIFLOAT8),
      NAME(ACL_FLOAT8_E5M2),  NAME(ACL_FLOAT8_E4M3FN), NAME(ACL_FLOAT8_E8M0),
  };
#undef NAME
  return kTypes;
}

const Function& function_of(const Case& one) { return functions()[static_cast<size_t>(one.function)]; }
bool is_single(Kind kind) { return kind == Kind::kTensor || kind == Kind::kScalar || kind >= Kind::kInt64; }
bool is_tensor(Kind kind) { return kind == Kind::kTensor || kind == Kind::kTensorList; }

int64_t item_size(int32_t dtype) {
  switch (dtype) {
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_DOUBLE:
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 1;
  }
}

int64_t count_elements(const Tensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) {
    if (__builtin_mul_overflow(count, tensor.sizes[i], &count)) return -1;
  }
  return count;
}

int64_t bytes_of(const Tensor& tensor) {
  if (count_elements(tensor) == 0) return 0;
  if (tensor.offset < 0) return -1;
  int64_t last = tensor.offset;
  int64_t dense = 1;
  for (int i = tensor.rank; i-- > 0;) {
    int64_t extent = 0;
    const int64_t stride = tensor.has_strides ? tensor.strides[i] : dense;
    if (tensor.sizes[i] < 0 || stride < 0 || __builtin_mul_overflow(tensor.sizes[i] - 1, stride, &extent) ||
        __builtin_add_overflow(last, extent, &last) || __builtin_mul_overflow(dense, tensor.sizes[i], &dense)) {
      return -1;
    }
  }
  if (last < 0 || last > 256 * kMaxElements) return -1;
  return (last + 1) * item_size(tensor.dtype);
}

void set_dense(Tensor& tensor) {
  int64_t stride = 1;
  for (int i = tensor.rank; i-- > 0;) {
    tensor.strides[i] = stride;
    stride = wrapping_product(stride, std::max<int64_t>(tensor.sizes[i], 1));
  }
}

void drop_unused(Case& one) {
  bool tensors[kMaxTensors] = {};
  bool scalars[kMaxScalars] = {};
  const auto parameters = function_of(one).parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Argument& argument = one.arguments[i];
    const int count = is_single(parameters[i].kind) ? 1 : argument.is_null ? 0 : argument.count;
    if (is_tensor(parameters[i].kind)) std::fill_n(tensors + argument.first, count, true);
    if (parameters[i].kind == Kind::kScalar || parameters[i].kind == Kind::kScalarList) {
      std::fill_n(scalars + argument.first, count, true);
    }
  }
  for (int i = 0; i < one.tensor_count; ++i) one.tensors[i].is_null |= !tensors[i];
  for (int i = 0; i < one.scalar_count; ++i) one.scalars[i].is_null |= !scalars[i];
}

std::vector<Block> plan_memory(const Case& one) {
  std::vector<Block> blocks(static_cast<size_t>(one.tensor_count));
  for (int i = 0; i < one.tensor_count; ++i) {
    const Tensor& tensor = one.tensors[i];
    Block& block = blocks[static_cast<size_t>(i)];
    block.owner = i;
    if (tensor.is_null || !tensor.has_memory) continue;
    const int64_t bytes = std::max<int64_t>(bytes_of(tensor), 0);
    if (tensor.shares >= 0 && tensor.shares < i && !one.tensors[tensor.shares].is_null) {
      block.owner = blocks[static_cast<size_t>(tensor.shares)].owner;
      Block& owner = blocks[static_cast<size_t>(block.owner)];
      owner.bytes = std::max(owner.bytes, bytes);
    } else {
      block.bytes = std::max<int64_t>(bytes - tensor.missing, 1);
    }
  }
  for (Block& block : blocks) block.bytes = blocks[static_cast<size_t>(block.owner)].bytes;
  return blocks;
}

std::vector<uint8_t> pattern_of(const Tensor& tensor) {
  Random random(tensor.fill_seed);
  const int64_t count = tensor.fill == Fill::kZeros || tensor.fill == Fill::kOnes ? 1 : kPatternElements;
  const int64_t size = item_size(tensor.dtype);
  std::vector<uint8_t> bytes(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i) {
    const double real = next_number(random, tensor.fill, i, is_floating(tensor.dtype));
    const double imaginary = next_number(random, tensor.fill, 0, true);
    store_number(tensor.dtype, real, imaginary, bytes.data() + i * size);
  }
  return bytes;
}

void store_number(int32_t dtype, double real, double imaginary, uint8_t* bytes) {
  switch (dtype) {
    case ACL_FLOAT:
      return put(static_cast<float>(real), bytes);
    case ACL_DOUBLE:
      return put(real, bytes);
    case ACL_FLOAT16:
      return put(static_cast<uint16_t>(small_float(real, 5, 10, true)), bytes);
    case ACL_BF16:
      return put(static_cast<uint16_t>(small_float(real, 8, 7, true)), bytes);
    case ACL_FLOAT8_E5M2:
      return put(static_cast<uint8_t>(small_float(real, 5, 2, true)), bytes);
    case ACL_FLOAT8_E4M3FN:
      return put(static_cast<uint8_t>(small_float(real, 4, 3, false)), bytes);
    case ACL_FLOAT8_E8M0:
      return put(static_cast<uint8_t>(real > 0 ? std::clamp(std::ilogb(real), -127, 128) + 127 : 255), bytes);
    case ACL_COMPLEX32:
      put(static_cast<uint16_t>(small_float(real, 5, 10, true)), bytes);
      return put(static_cast<uint16_t>(small_float(imaginary, 5, 10, true)), bytes + 2);
    case ACL_COMPLEX64:
      put(static_cast<float>(real), bytes);
      return put(static_cast<float>(imaginary), bytes + 4);
    case ACL_COMPLEX128:
      put(real, bytes);
      return put(imaginary, bytes + 8);
    case ACL_INT8:
      return put(as_integer<int8_t>(real), bytes);
    case ACL_UINT8:
      return put(as_integer<uint8_t>(real), bytes);
    case ACL_INT16:
      return put(as_integer<int16_t>(real), bytes);
    case ACL_UINT16:
      return put(as_integer<uint16_t>(real), bytes);
    case ACL_INT32:
      return put(as_integer<int32_t>(real), bytes);
    case ACL_UINT32:
      return put(as_integer<uint32_t>(real), bytes);
    case ACL_INT64:
      return put(as_integer<int64_t>(real), bytes);
    case ACL_UINT64:
      return put(as_integer<uint64_t>(real), bytes);
    case ACL_BOOL:
      return put(static_cast<uint8_t>(real > 0), bytes);
    default:
      std::memset(bytes, 0, static_cast<size_t>(item_size(dtype)));
  }
}

}  // namespace softnpu::fuzz
