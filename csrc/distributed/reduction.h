// Maps a reduction of torch.distributed to an operator of libhccl and to the steps before and after it.
//
//   const Reduction reduction(options.reduceOp, tensor.scalar_type(), "all_reduce");
//   const at::Tensor input = reduction.prepare(tensor);             // PREMUL_SUM: a scaled copy
//   HCCL_CALL(HcclAllReduce, ..., reduction.op(), ...);
//   reduction.finish(tensor, world_size);                           // AVG: divides
//
// | operator | how |
// | SUM, PRODUCT, MIN, MAX | libhccl. SUM of bool is MAX and PRODUCT of bool is MIN, so that the result is 0 or 1 |
// | AVG | SUM, then a division. Integers round towards 0, and integers of less than 64 bits are added as int64 |
// | PREMUL_SUM | a product, then SUM |
// | BAND, BOR, BXOR | not an operator of libhccl: the caller gathers the inputs of all ranks, and combine() reduces them |
//
// Operators of npu run on the current stream. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "hccl/hccl_types.h"

namespace torch_npu::distributed {

class Reduction {
 public:
  // Throws, naming `op`, for a combination of operator and data type that is not supported.
  Reduction(const c10d::ReduceOp& reduce_op, c10::ScalarType type, const char* op);

  bool is_bitwise() const { return is_bitwise_; }
  // Not for bitwise operators.
  HcclReduceOp op() const { return op_; }

  // The name of the operator if libhccl lacks it; empty for other operators.
  const char* note() const;
  // Whether the tensor must be reduced as int64, because the sum of an average may not fit into its type.
  bool widens(const at::Tensor& tensor) const;

  // The input, or a scaled copy of it.
  at::Tensor prepare(const at::Tensor& input) const;
  // Divides if the operator is AVG.
  void finish(const at::Tensor& output, int64_t ranks) const;
  // Writes the reduction of the rows of `inputs` to `output`. For bitwise operators.
  void combine(const at::Tensor& inputs, const at::Tensor& output) const;

 private:
  c10d::ReduceOp::RedOpType type_;
  HcclReduceOp op_ = HCCL_REDUCE_SUM;
  bool is_bitwise_ = false;
  c10::intrusive_ptr<c10d::NCCLPreMulSumSupplement> factor_;
};

}  // namespace torch_npu::distributed
