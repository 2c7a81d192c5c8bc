// Records of the software device's tasks, calls and marks, for profilers.
//
//   const int64_t session = start_records(SOFTNPU_RECORD_TASKS | SOFTNPU_RECORD_CALLS);
//   ...
//   DeviceRecords records = stop_records(session);     // does not wait for tasks
//
// Sessions may overlap. Thread-safe. start_records() throws if the device library is not softnpu.
#pragma once

#include <c10/macros/Export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/profile/record_names.h"
#include "runtime/profiler.h"

namespace torch_npu::acl {

using softnpu::TaskClass;

struct RecordedTask {
  SoftnpuTaskRecord record;      // do not use its pointer `tensors`
  std::vector<int64_t> tensors;  // in the form of SoftnpuTaskRecord::tensors
};

struct RecordedMark {
  std::string text;
  SoftnpuMarkRecord record;  // do not use its pointer `text`
};

struct DeviceRecords {
  std::vector<RecordedTask> tasks;
  std::vector<SoftnpuCallRecord> calls;
  std::vector<RecordedMark> marks;
  SoftnpuRecordTotals totals{};
};

// Null if the device library is not softnpu or cannot be loaded.
C10_EXPORT const SoftnpuProfiler* softnpu_profiler();

C10_EXPORT int64_t start_records(uint32_t what);
// Ends the session and returns its records. Throws for an unknown session.
C10_EXPORT DeviceRecords stop_records(int64_t session);

C10_EXPORT TaskClass class_of(const SoftnpuTaskRecord& task);
C10_EXPORT const char* class_name(TaskClass task);          // "kernel", "copy" ...
C10_EXPORT const char* direction_name(uint32_t direction);  // "HtoD" ...; "" for 0
// The names in the vendor's profiles, such as "DT_BF16" and "FRACTAL_NZ".
C10_EXPORT const char* data_type_name(int64_t data_type);
C10_EXPORT const char* format_name(int64_t format);

}  // namespace torch_npu::acl
