// How libhccl names the data types of torch.
//
//   const WireType wire = wire_type(tensor.scalar_type(), "broadcast");
//   HCCL_CALL(HcclBroadcast, data, count_of(tensor, wire), wire.type, root, comm, stream);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hccl/hccl_types.h"

namespace torch_npu::distributed {

struct WireType {
  HcclDataType type;
  int64_t factor;  // elements of `type` in one element of the tensor: 2 for complex numbers, else 1
};

// How many elements of `wire.type` the tensor has.
inline uint64_t count_of(const at::Tensor& tensor, WireType wire) { return static_cast<uint64_t>(tensor.numel() * wire.factor); }

// Throws a c10::TypeError that names `op` for a type that cannot be sent.
WireType wire_type(c10::ScalarType type, const char* op);

// Whether libhccl adds and compares elements of the type.
bool can_reduce(HcclDataType type);

}  // namespace torch_npu::distributed
