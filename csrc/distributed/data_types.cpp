#include "distributed/data_types.h"

#include <c10/util/Exception.h>

namespace torch_npu::distributed {

WireType wire_type(c10::ScalarType type, const char* op) {
  switch (type) {
    case c10::kBool:
    case c10::kByte:
      return {HCCL_DATA_TYPE_UINT8, 1};
    case c10::kChar:
      return {HCCL_DATA_TYPE_INT8, 1};
    case c10::kShort:
      return {HCCL_DATA_TYPE_INT16, 1};
    case c10::kInt:
      return {HCCL_DATA_TYPE_INT32, 1};
    case c10::kLong:
      return {HCCL_DATA_TYPE_INT64, 1};
    case c10::kUInt16:
      return {HCCL_DATA_TYPE_UINT16, 1};
    case c10::kUInt32:
      return {HCCL_DATA_TYPE_UINT32, 1};
    case c10::kUInt64:
      return {HCCL_DATA_TYPE_UINT64, 1};
    case c10::kHalf:
      return {HCCL_DATA_TYPE_FP16, 1};
    case c10::kBFloat16:
      return {HCCL_DATA_TYPE_BFP16, 1};
    case c10::kFloat:
      return {HCCL_DATA_TYPE_FP32, 1};
    case c10::kDouble:
      return {HCCL_DATA_TYPE_FP64, 1};
    case c10::kComplexHalf:
      return {HCCL_DATA_TYPE_FP16, 2};
    case c10::kComplexFloat:
      return {HCCL_DATA_TYPE_FP32, 2};
    case c10::kComplexDouble:
      return {HCCL_DATA_TYPE_FP64, 2};
    case c10::kFloat8_e4m3fn:
      return {HCCL_DATA_TYPE_FP8E4M3, 1};
    case c10::kFloat8_e5m2:
      return {HCCL_DATA_TYPE_FP8E5M2, 1};
    case c10::kFloat8_e8m0fnu:
      return {HCCL_DATA_TYPE_FP8E8M0, 1};
    default:
      TORCH_CHECK_TYPE(false, op, ": the backend hccl cannot send tensors of ", type,
                       "; view the tensor as a type of the same size, such as torch.uint8");
  }
}

bool can_reduce(HcclDataType type) {
  switch (type) {
    case HCCL_DATA_TYPE_INT128:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0:
    case HCCL_DATA_TYPE_RESERVED:
      return false;
    default:
      return true;
  }
}

}  // namespace torch_npu::distributed
