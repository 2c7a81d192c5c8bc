// What libhccl compares between ranks and cannot see in the arguments of its functions: reductions that it does not have (AVG,
// BAND), data types that it moves or adds as others (bool, complex, small integers of an average), and the order of the elements
// (channels_last).
//
//   note_call(tensor, "AVG");
//   HCCL_CALL(HcclAllReduce, ...);            // an error on all ranks if their notes differ
//
// A note holds for the later calls of this thread until forget_notes(), or until the next note. Without softnpu's libhccl notes
// have no effect.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hccl/hccl_types.h"

namespace torch_npu::distributed {

// `reduction` is empty for SUM, PRODUCT, MIN and MAX, which libhccl knows.
void note_call(const at::Tensor& tensor, const char* reduction = "");
void forget_notes() noexcept;

// Why the communicator failed, or which ranks it waits for. Empty if libhccl does not say it.
std::string words_of(HcclComm communicator);

}  // namespace torch_npu::distributed
