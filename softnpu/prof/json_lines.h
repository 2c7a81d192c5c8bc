// Writes records as lines of JSON. A field with its default value is left out. python/torch_npu/profiler/records.py lists the
// fields and their defaults.
#pragma once

#include <string>
#include <string_view>

#include "prof/record_loop.h"

namespace softnpu::prof {

// Each function appends a line. `tensors` are the words of the record (SoftnpuTaskRecord::tensors).
void append_task(std::string& lines, const SoftnpuTaskRecord& task, const int64_t* tensors);
void append_call(std::string& lines, const SoftnpuCallRecord& call);
void append_mark(std::string& lines, const Batch::Mark& mark);
void append_step(std::string& lines, uint64_t number, uint64_t start_ns, uint64_t end_ns);

// `text` in quotation marks. Bytes that are not UTF-8 become U+FFFD.
void append_quoted(std::string& line, std::string_view text);

}  // namespace softnpu::prof
