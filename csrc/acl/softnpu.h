// What the software device can do beyond AscendCL.
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_npu::acl {

// Runs a command of softnpuControl (docs/checks.md) and returns its answer. Throws if the device library is not softnpu, or
// refuses the command.
C10_EXPORT std::string softnpu_control(const std::string& command);

// Lets the software device name the place of a call where a task fails within it and, if `of_all_launches`, in the reports of its
// checks. `origin` writes the place into `text`, ended by a zero, and returns its length, or 0. Nothing happens with another
// device library.
C10_EXPORT void set_softnpu_origin(int (*origin)(char* text, size_t bytes), bool of_all_launches);

}  // namespace torch_npu::acl
