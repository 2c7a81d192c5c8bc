#include "acl/device_records.h"

#include <c10/util/Exception.h>

#include "acl/library.h"
#include "acl/symbol.h"

namespace torch_npu::acl {
namespace {

void add_task(void* context, const SoftnpuTaskRecord* task) {
  auto& tasks = static_cast<DeviceRecords*>(context)->tasks;
  tasks.push_back({*task, {task->tensors, task->tensors + task->words}});
}

void add_call(void* context, const SoftnpuCallRecord* call) { static_cast<DeviceRecords*>(context)->calls.push_back(*call); }

void add_mark(void* context, const SoftnpuMarkRecord* mark) {
  static_cast<DeviceRecords*>(context)->marks.push_back({mark->text, *mark});
}

}  // namespace

const SoftnpuProfiler* softnpu_profiler() {
  static const SoftnpuProfiler* const profiler = []() -> const SoftnpuProfiler* {
    try {
      const auto get = reinterpret_cast<decltype(&softnpuProfiler)>(find_symbol("softnpuProfiler"));
      return get == nullptr ? nullptr : get(SOFTNPU_PROFILER_VERSION);
    } catch (const c10::Error&) {
      return nullptr;
    }
  }();
  return profiler;
}

int64_t start_records(uint32_t what) {
  TORCH_CHECK(
      softnpu_profiler() != nullptr, "The device cannot be recorded: the device library ", library_info().path,
      " is not softnpu, or is the softnpu of another torch_npu. Set TORCH_NPU_LIBRARY_PATH=softnpu, or use torch.npu.profile.");
  return softnpu_profiler()->start(what);
}

DeviceRecords stop_records(int64_t session) {
  DeviceRecords records;
  const SoftnpuRecordVisitor visitor{&records, add_task, add_call, add_mark};
  TORCH_CHECK(softnpu_profiler() != nullptr && softnpu_profiler()->stop(session, &visitor, &records.totals), "The recording ",
              session, " of the device does not exist or has ended: call start() first, and stop() once.");
  return records;
}

TaskClass class_of(const SoftnpuTaskRecord& task) { return softnpu::class_of(task.name); }
const char* class_name(TaskClass task) { return softnpu::class_name(task); }
const char* direction_name(uint32_t direction) { return softnpu::direction_name(direction); }
const char* data_type_name(int64_t data_type) { return softnpu::data_type_name(data_type); }
const char* format_name(int64_t format) { return softnpu::format_name(format); }

}  // namespace torch_npu::acl
