// What the software device can do beyond AscendCL.
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_npu::acl {

// Runs a command of softnpuControl (docs/checks.md) and returns its answer. Throws if the device library is not softnpu, or
// refuses the command.
C10_EXPORT std::string softnpu_control(const std::string& command);

}  // namespace torch_npu::acl
