// The expected results of collectives. Every rank can compute the data of all ranks.
#pragma once

#include <bit>
#include <cstring>

#include "hccl/hccl.h"
#include "runtime/base/float16.h"
#include "testing/buffers.h"

namespace softnpu::test {

struct DataType {
  HcclDataType type;
  size_t bytes;
  const char* name;
  bool can_be_reduced;
};

constexpr DataType kDataTypes[] = {
    {HCCL_DATA_TYPE_INT8, 1, "int8", true},
    {HCCL_DATA_TYPE_INT16, 2, "int16", true},
    {HCCL_DATA_TYPE_INT32, 4, "int32", true},
    {HCCL_DATA_TYPE_FP16, 2, "float16", true},
    {HCCL_DATA_TYPE_FP32, 4, "float32", true},
    {HCCL_DATA_TYPE_INT64, 8, "int64", true},
    {HCCL_DATA_TYPE_UINT64, 8, "uint64", true},
    {HCCL_DATA_TYPE_UINT8, 1, "uint8", true},
    {HCCL_DATA_TYPE_UINT16, 2, "uint16", true},
    {HCCL_DATA_TYPE_UINT32, 4, "uint32", true},
    {HCCL_DATA_TYPE_FP64, 8, "float64", true},
    {HCCL_DATA_TYPE_BFP16, 2, "bfloat16", true},
    {HCCL_DATA_TYPE_INT128, 16, "int128", false},
    {HCCL_DATA_TYPE_HIF8, 1, "hifloat8", false},
    {HCCL_DATA_TYPE_FP8E4M3, 1, "float8_e4m3", false},
    {HCCL_DATA_TYPE_FP8E5M2, 1, "float8_e5m2", false},
    {HCCL_DATA_TYPE_FP8E8M0, 1, "float8_e8m0", false},
};

// The data of a rank. Floating-point numbers are such that sums round but do not overflow.
inline Bytes data_of(const DataType& type, size_t count, uint32_t rank, uint32_t seed) {
  Bytes bytes = pattern(count * type.bytes, seed * 131 + rank + 1);
  const auto each = [&](auto make) {
    using Value = decltype(make(uint32_t{}));
    std::minstd_rand random(seed * 257 + rank + 3);
    for (size_t index = 0; index < count; ++index) {
      const Value value = make(static_cast<uint32_t>(random()));
      std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value);
    }
  };
  const auto real = [](uint32_t random) { return (float(random % 20001) - 10000.0F) / 777.0F; };
  switch (type.type) {
    case HCCL_DATA_TYPE_FP32:
      each(real);
      break;
    case HCCL_DATA_TYPE_FP64:
      each([&](uint32_t random) { return double(real(random)) / 3.0; });
      break;
    case HCCL_DATA_TYPE_FP16:
      each([&](uint32_t random) { return half_from_float(real(random)); });
      break;
    case HCCL_DATA_TYPE_BFP16:
      each([&](uint32_t random) { return uint16_t(std::bit_cast<uint32_t>(real(random)) >> 16); });
      break;
    default:
      break;
  }
  return bytes;
}

namespace internal {

template <typename T>
T combine(HcclReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = unsigned __int128;
    if (op == HCCL_REDUCE_SUM) return T(Wide(a) + Wide(b));
    if (op == HCCL_REDUCE_PROD) return T(Wide(a) * Wide(b));
  } else {
    if (op == HCCL_REDUCE_SUM) return a + b;
    if (op == HCCL_REDUCE_PROD) return a * b;
  }
  if (op == HCCL_REDUCE_MAX) return a > b ? a : b;
  return a < b ? a : b;
}

template <typename T>
Bytes combine_all(HcclReduceOp op, const std::vector<Bytes>& inputs) {
  Bytes result = inputs[0];
  for (size_t index = 0; index < result.size() / sizeof(T); ++index) {
    T total, next;
    std::memcpy(&total, inputs[0].data() + index * sizeof(T), sizeof(T));
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      std::memcpy(&next, inputs[rank].data() + index * sizeof(T), sizeof(T));
      total = combine(op, total, next);
    }
    std::memcpy(result.data() + index * sizeof(T), &total, sizeof(T));
  }
  return result;
}

inline uint16_t bfloat_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Combines in float32 and rounds once.
template <typename Widen, typename Narrow>
Bytes combine_small_floats(HcclReduceOp op, const std::vector<Bytes>& inputs, Widen widen, Narrow narrow) {
  Bytes result = inputs[0];
  for (size_t index = 0; index < result.size() / 2; ++index) {
    float total = 0;
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      uint16_t bits;
      std::memcpy(&bits, inputs[rank].data() + index * 2, 2);
      total = rank == 0 ? widen(bits) : combine(op, total, widen(bits));
    }
    const uint16_t bits = narrow(total);
    std::memcpy(result.data() + index * 2, &bits, 2);
  }
  return result;
}

}  // namespace internal

// The inputs combined from first to last.
inline Bytes reduced(HcclDataType type, HcclReduceOp op, const std::vector<Bytes>& inputs) {
  using namespace internal;
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return combine_all<int8_t>(op, inputs);
    case HCCL_DATA_TYPE_INT16:
      return combine_all<int16_t>(op, inputs);
    case HCCL_DATA_TYPE_INT32:
      return combine_all<int32_t>(op, inputs);
    case HCCL_DATA_TYPE_INT64:
      return combine_all<int64_t>(op, inputs);
    case HCCL_DATA_TYPE_UINT8:
      return combine_all<uint8_t>(op, inputs);
    case HCCL_DATA_TYPE_UINT16:
      return combine_all<uint16_t>(op, inputs);
    case HCCL_DATA_TYPE_UINT32:
      return combine_all<uint32_t>(op, inputs);
    case HCCL_DATA_TYPE_UINT64:
      return combine_all<uint64_t>(op, inputs);
    case HCCL_DATA_TYPE_FP32:
      return combine_all<float>(op, inputs);
    case HCCL_DATA_TYPE_FP64:
      return combine_all<double>(op, inputs);
    case HCCL_DATA_TYPE_FP16:
      return combine_small_floats(op, inputs, float_from_half, half_from_float);
    default:
      return combine_small_floats(
          op, inputs, [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }, bfloat_from_float);
  }
}

inline Bytes part(const Bytes& all, size_t begin, size_t bytes) {
  return {all.begin() + ptrdiff_t(begin), all.begin() + ptrdiff_t(begin + bytes)};
}

inline std::vector<Bytes> parts(const std::vector<Bytes>& all, size_t begin, size_t bytes) {
  std::vector<Bytes> result;
  for (const Bytes& one : all) result.push_back(part(one, begin, bytes));
  return result;
}

inline Bytes joined(const std::vector<Bytes>& all) {
  Bytes result;
  for (const Bytes& one : all) result.insert(result.end(), one.begin(), one.end());
  return result;
}

}  // namespace softnpu::test
