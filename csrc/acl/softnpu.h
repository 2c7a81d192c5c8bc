// Functions of the software device that AscendCL does not have.
//
//   softnpu_control("memory-checks")             // "none"
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_npu::acl {

// Runs a command of softnpuControl (docs/checks.md) and returns its reply. Throws if the device library is not softnpu or refuses
// the command.
C10_EXPORT std::string softnpu_control(const std::string& command);

// Sets the function from which the software device gets the origin of a launch, such as a Python line. It calls `origin` if a
// task fails within the launching call and, with `of_all_launches`, for the reports of its checks. `origin` writes a
// zero-terminated text and returns its length, or 0. No effect with another device library.
C10_EXPORT void set_softnpu_origin(int (*origin)(char* text, size_t bytes), bool of_all_launches);

}  // namespace torch_npu::acl
