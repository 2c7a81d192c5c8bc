// Notes are properties of a call that libhccl compares between ranks but cannot see in the arguments of its functions: reductions
// that it lacks (AVG, BAND), data types that it moves or adds as another type (bool, complex, small integers of an average), and
// the order of the elements (channels_last).
//
//   note_call(tensor, "AVG");
//   HCCL_CALL(HcclAllReduce, ...);            // an error on all ranks if their notes differ
//
// A note applies to the calls of this thread until the next note or forget_notes(). Notes have no effect with another libhccl
// than softnpu's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hccl/hccl_types.h"

namespace torch_npu::distributed {

// `reduction` is empty for SUM, PRODUCT, MIN and MAX, which libhccl knows.
void note_call(const at::Tensor& tensor, const char* reduction = "");
void forget_notes() noexcept;

// The reason why the communicator failed, or the ranks that it waits for. Empty if libhccl reports neither.
std::string words_of(HcclComm communicator);

}  // namespace torch_npu::distributed
