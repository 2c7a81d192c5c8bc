// Names for the numbers in records, and the class of a task by its name. libascendcl, libmsprofiler and the plugin each compile
// record_names.cpp: it has no state and needs no library.
#pragma once

#include <cstdint>
#include <string_view>

namespace softnpu {

enum class TaskClass { kKernel, kCopy, kFill, kWait, kRecord, kCollective, kCallback, kOther };

// The class of a task with this name, such as "aclnnAdd".
TaskClass class_of(std::string_view name);
const char* class_name(TaskClass task);  // "kernel", "copy" ...

// The type of an operator: its aclnn function without prefixes, such as "Add" of "aclnnInplaceAdd".
std::string_view operator_type(std::string_view name);

// Whether a device of the vendor runs such a kernel on an AI CPU. This follows from the family of the operator and is not
// measured. names.core() in Python has the same families.
bool runs_on_ai_cpu(std::string_view name);

const char* direction_name(uint32_t direction);  // "HtoD" ...; "" for 0
// The names in the vendor's profiles, such as "DT_BF16" and "FRACTAL_NZ"; "UNDEFINED" for unknown numbers.
const char* data_type_name(int64_t data_type);
const char* format_name(int64_t format);

}  // namespace softnpu
