// Writes signatures of operators into the log. A signature is the types, formats and shapes of the tensors. A card compiles an
// operator for each new signature, and readers of logs look for these lines (torch_npu.tools.op_info).
//
//   [INFO] ASCENDCL(4711,python):... aclopCompile::aclOp = OpType: Add, InputDesc[0]: FLOAT ND [2,3] ... OutputDesc[0]: ...
//   [INFO] ASCENDCL(4711,python):... Match op inputs/type failed. To compile op: Add       after it, if Add had another signature
#pragma once

#include <cstdint>

namespace softnpu {

// Writes the lines if the signature is new to this process. `tensors` has the form of SoftnpuTaskRecord::tensors. Thread-safe.
void log_signature(const char* name, const int64_t* tensors, uint32_t words);

}  // namespace softnpu
