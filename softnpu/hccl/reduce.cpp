#include "hccl/reduce.h"

#include <cstdint>
#include <type_traits>

#include "runtime/base/float16.h"

namespace softnpu::hccl {
namespace baseline {

#include "hccl/reduce_loops.inc"

}  // namespace baseline

#if defined(__x86_64__)
namespace avx2 {
ReduceFunction find(HcclDataType type, HcclReduceOp op, Partial partial);
}
#endif

ReduceFunction find_reduce(HcclDataType type, HcclReduceOp op, Partial partial) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  if (has_avx2) return avx2::find(type, op, partial);
#endif
  return baseline::find(type, op, partial);
}

size_t element_size(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0:
      return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16:
      return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32:
      return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64:
      return 8;
    case HCCL_DATA_TYPE_INT128:
      return 16;
    default:
      return 0;
  }
}

size_t partial_size(HcclDataType type) {
  const bool is_small_float = type == HCCL_DATA_TYPE_FP16 || type == HCCL_DATA_TYPE_BFP16;
  return is_small_float ? sizeof(float) : element_size(type);
}

const char* type_name(HcclDataType type) {
  constexpr const char* kNames[] = {"int8",   "int16", "int32",    "float16",     "float32",     "int64",
                                    "uint64", "uint8", "uint16",   "uint32",      "float64",     "bfloat16",
                                    "int128", "?",     "hifloat8", "float8_e4m3", "float8_e5m2", "float8_e8m0"};
  return type >= 0 && size_t(type) < sizeof kNames / sizeof *kNames ? kNames[type] : "an unknown data type";
}

const char* reduce_name(HcclReduceOp op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min"};
  return op >= 0 && size_t(op) < sizeof kNames / sizeof *kNames ? kNames[op] : "an unknown operation";
}

}  // namespace softnpu::hccl
