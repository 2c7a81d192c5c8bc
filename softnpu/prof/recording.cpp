#include "prof/recording.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "prof/json_lines.h"
#include "runtime/profile/record_names.h"

bool aclprofConfig::has_common_device(const aclprofConfig& other) const {
  return std::any_of(devices.begin(), devices.end(), [&](int32_t device) {
    return std::find(other.devices.begin(), other.devices.end(), device) != other.devices.end();
  });
}

namespace softnpu::prof {
namespace {

constexpr int kFormatVersion = 1;  // VERSION of python/torch_npu/profiler/records.py
constexpr uint64_t kTaskTimes = ACL_PROF_TASK_TIME | ACL_PROF_TASK_TIME_L0 | ACL_PROF_TASK_TIME_L2 | ACL_PROF_TASK_TIME_L3;

uint32_t records_of(uint64_t bits) {
  uint32_t what = 0;
  if (bits & (kTaskTimes | ACL_PROF_AICPU | ACL_PROF_HCCL_TRACE)) what |= SOFTNPU_RECORD_TASKS | SOFTNPU_RECORD_TENSORS;
  if (bits & ACL_PROF_ACL_API) what |= SOFTNPU_RECORD_CALLS;
  return what;
}

std::string list_of(const std::vector<int32_t>& devices) {
  std::string list;
  for (const int32_t device : devices) list += (list.empty() ? "" : ",") + std::to_string(device);
  return list;
}

std::string task_file(int32_t device) { return text("device_", device, "/tasks.jsonl"); }

}  // namespace

const char* metrics_name(aclprofAicoreMetrics metrics) {
  switch (metrics) {
    case ACL_AICORE_ARITHMETIC_UTILIZATION:
      return "ACL_AICORE_ARITHMETIC_UTILIZATION";
    case ACL_AICORE_PIPE_UTILIZATION:
      return "ACL_AICORE_PIPE_UTILIZATION";
    case ACL_AICORE_MEMORY_BANDWIDTH:
      return "ACL_AICORE_MEMORY_BANDWIDTH";
    case ACL_AICORE_L0B_AND_WIDTH:
      return "ACL_AICORE_L0B_AND_WIDTH";
    case ACL_AICORE_RESOURCE_CONFLICT_RATIO:
      return "ACL_AICORE_RESOURCE_CONFLICT_RATIO";
    case ACL_AICORE_MEMORY_UB:
      return "ACL_AICORE_MEMORY_UB";
    case ACL_AICORE_L2_CACHE:
      return "ACL_AICORE_L2_CACHE";
    case ACL_AICORE_PIPE_EXECUTE_UTILIZATION:
      return "ACL_AICORE_PIPE_EXECUTE_UTILIZATION";
    case ACL_AICORE_MEMORY_ACCESS:
      return "ACL_AICORE_MEMORY_ACCESS";
    case ACL_AICORE_NONE:
      return "ACL_AICORE_NONE";
  }
  return nullptr;
}

Result<std::unique_ptr<Recording>> Recording::start(const aclprofConfig& config, const std::string& parent,
                                                    const Settings& settings, uint64_t most_bytes) {
  Result<ResultFolder> folder = ResultFolder::create(parent);
  if (!folder.ok()) return folder.take_status();
  std::unique_ptr<Recording> recording(new Recording(config, std::move(folder.value()), most_bytes));
  if (Status status = recording->write_info(settings); !status.ok()) return status;
  Recording* const self = recording.get();
  recording->loop_ = std::make_unique<RecordLoop>(records_of(config.bits), [self](const Batch& batch) { self->write(batch); });
  return recording;
}

Recording::Recording(const aclprofConfig& config, ResultFolder folder, uint64_t most_bytes)
    : config_(config), most_bytes_(most_bytes), folder_(std::move(folder)) {}

Status Recording::write_info(const Settings& settings) {
  const bool measures = (config_.bits & ACL_PROF_AICORE_METRICS) != 0;
  std::string info = text("{\"version\":", kFormatVersion, ",\"process\":", getpid(), ",\"program\":");
  append_quoted(info, program_invocation_name);
  info += text(",\"devices\":[", list_of(config_.devices), "],\"config\":{\"bits\":", config_.bits, ",\"metrics\":\"",
               metrics_name(measures ? config_.metrics : ACL_AICORE_NONE), "\",\"settings\":{");
  const char* separator = "\"";
  for (const auto& [type, value] : settings) {
    info += text(separator, type, "\":");
    append_quoted(info, value);
    separator = ",\"";
  }
  return folder_.append("host/info.json", info + "}}}\n");
}

bool Recording::wants(const SoftnpuTaskRecord& task) const {
  const auto is_wanted = [&](uint64_t bits) { return (config_.bits & bits) != 0; };
  if (std::find(config_.devices.begin(), config_.devices.end(), task.device) == config_.devices.end()) return false;
  const TaskClass kind = class_of(task.name);
  if (kind == TaskClass::kCollective) return is_wanted(ACL_PROF_HCCL_TRACE);
  if (kind == TaskClass::kKernel && runs_on_ai_cpu(task.name)) return is_wanted(ACL_PROF_AICPU);
  return is_wanted(kTaskTimes);
}

void Recording::write(const Batch& batch) {
  std::map<int32_t, std::pair<std::string, uint64_t>> tasks;
  for (const Batch::Task& task : batch.tasks) {
    if (!wants(task.record)) continue;
    if (task.record.skipped) {
      ++skipped_;
      continue;
    }
    auto& [lines, records] = tasks[task.record.device];
    append_task(lines, task.record, batch.tensors(task));
    newest_ns_ = std::max(newest_ns_, task.record.end_ns);
    ++records;
  }
  for (const auto& [device, file] : tasks) put(task_file(device), file.first, file.second);
  std::string lines;
  if (config_.bits & ACL_PROF_ACL_API) {
    for (const SoftnpuCallRecord& call : batch.calls) append_call(lines, call);
    put("host/calls.jsonl", lines, batch.calls.size());
  }
  lines.clear();
  if (config_.bits & ACL_PROF_MSPROFTX) {
    for (const Batch::Mark& mark : batch.marks) append_mark(lines, mark);
    put("host/marks.jsonl", lines, batch.marks.size());
  }
  write_steps();
}

void Recording::put(const std::string& file, const std::string& lines, uint64_t records) {
  if (records == 0) return;
  if (folder_.bytes() + lines.size() > most_bytes_ || !folder_.append(file, lines).ok()) dropped_ += records;
}

void Recording::add_step(uint64_t start_ns, uint64_t end_ns) {
  if (!(config_.bits & ACL_PROF_TRAINING_TRACE)) return;
  const std::lock_guard guard(mutex_);
  steps_.emplace_back(start_ns, end_ns);
}

void Recording::write_steps() {
  std::vector<std::pair<uint64_t, uint64_t>> steps;
  {
    const std::lock_guard guard(mutex_);
    steps.swap(steps_);
  }
  std::string lines;
  for (const auto& [start, end] : steps) append_step(lines, ++steps_written_, start, end);
  put("host/steps.jsonl", lines, steps.size());
}

Status Recording::stop() {
  const SoftnpuRecordTotals totals = loop_->end();
  write_steps();
  return folder_.append("host/end.json", text("{\"end_ns\":", newest_ns_, ",\"dropped\":", totals.dropped + dropped_,
                                              ",\"unfinished\":", totals.unfinished + skipped_, "}\n"));
}

}  // namespace softnpu::prof
