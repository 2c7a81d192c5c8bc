// Gives torch.profiler the tasks of the device: kernels, copies and fills with their streams, and the calls of AscendCL that
// launched them. The file has no header, because it only registers the profiler with torch. Torch before 2.12 has no such
// registration and times the device with the events of profiler_stubs.cpp.
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)

#ifndef USE_KINETO
#define USE_KINETO
#endif
#include <c10/util/Exception.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "acl/device_records.h"

namespace torch_npu {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

// Torch numbers its operators from 1, and one table holds these numbers and ours. Ours begin here, so that they stay distinct.
constexpr int32_t kFirstCorrelation = 1 << 30;
constexpr int64_t kMostClockErrorNs = 1000;
// The first row of copies that ran in the calling thread and on no stream. Each thread has a row.
constexpr int32_t kFirstRowWithoutStream = 100'000;

int32_t correlation_of(uint64_t number) { return kFirstCorrelation + static_cast<int32_t>(number % kFirstCorrelation); }

std::string shapes_of(const std::vector<int64_t>& words, bool written) {
  constexpr int64_t kWritten = int64_t{1} << 40;
  std::string text = "[";
  for (size_t at = 0; at < words.size();) {
    const int64_t head = words[at++];
    const auto rank = static_cast<size_t>(head & 0xff);
    if (((head & kWritten) != 0) == written) {
      if (text.size() > 1) text += ", ";
      text += '[';
      for (size_t dim = 0; dim < rank; ++dim) text += (dim == 0 ? "" : ", ") + std::to_string(words[at + dim]);
      text += ']';
    }
    at += rank;
  }
  return text + "]";
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    session_ = acl::start_records(SOFTNPU_RECORD_TASKS | SOFTNPU_RECORD_CALLS | SOFTNPU_RECORD_TENSORS);
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (session_ == 0) return;
    records_ = acl::stop_records(std::exchange(session_, 0));
    if (const uint64_t dropped = records_.totals.dropped; dropped != 0) {
      TORCH_WARN(dropped, " records of the device did not fit into memory and are not in the profile; record fewer steps.");
    }
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  ~Session() override {
    if (session_ != 0) acl::softnpu_profiler()->stop(session_, nullptr, nullptr);
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, nullptr, 0, std::numeric_limits<int64_t>::max());
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback find, int64_t, int64_t) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->gpuOpCount = 0;
    buffer_->span.name = "npu";
    const auto linked = [&](uint64_t external) { return find && external != 0 ? find(static_cast<int32_t>(external)) : nullptr; };
    std::unordered_map<uint64_t, uint64_t> external_of;
    for (const acl::RecordedTask& task : records_.tasks) {
      if (!is_shown(task.record)) continue;
      external_of[task.record.correlation] = task.record.external;
      add_task(task).linked = linked(task.record.external);
    }
    const Edges edges = edges_of_operators(linked);
    for (const SoftnpuCallRecord& call : records_.calls) {
      const auto found = external_of.find(call.correlation);
      GenericTraceActivity& activity = add_call(call, found != external_of.end());
      activity.linked = found == external_of.end() ? nullptr : linked(found->second);
      if (activity.linked != nullptr) {
        keep_inside(activity);
      } else {
        keep_within(activity, edges);
      }
    }
    for (const auto& activity : buffer_->activities) activity->log(logger);
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> rows;
    for (const auto& [row, name] : rows_) rows.push_back({row.second, row.second, row.first, name});
    return rows;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t number) override {
    acl::softnpu_profiler()->push_external(number);
    const std::lock_guard lock(mutex_);
    operators_.push_back(number);
  }
  void popCorrelationId() override { acl::softnpu_profiler()->pop_external(); }
  void pushUserCorrelationId(uint64_t number) override { pushCorrelationId(number); }
  void popUserCorrelationId() override { popCorrelationId(); }

 private:
  // Waits, records of events and callbacks are not shown, because the device computes nothing in them.
  static bool is_shown(const SoftnpuTaskRecord& task) {
    switch (acl::class_of(task)) {
      case acl::TaskClass::kWait:
      case acl::TaskClass::kRecord:
      case acl::TaskClass::kCallback:
        return false;
      default:
        return task.skipped == 0;
    }
  }

  // Torch converts times from another clock, so an operator can seem to end some 10 ns before its last call. Viewers drop a bar
  // that overlaps another bar only in part.
  static void keep_inside(GenericTraceActivity& call) {
    const int64_t start = call.linked->timestamp(), end = start + call.linked->duration();
    if (call.startTime < start && start - call.startTime < kMostClockErrorNs) call.startTime = std::min(start, call.endTime);
    if (call.endTime > end && call.endTime - end < kMostClockErrorNs) call.endTime = std::max(end, call.startTime);
  }

  // For each thread the times at which operators start and end, in order.
  using Edges = std::unordered_map<int64_t, std::vector<int64_t>>;

  Edges edges_of_operators(const auto& linked) const {
    Edges threads;
    for (const uint64_t number : operators_) {
      const libkineto::ITraceActivity* activity = linked(number);
      if (activity == nullptr) continue;
      std::vector<int64_t>& edges = threads[activity->resourceId()];
      edges.push_back(activity->timestamp());
      edges.push_back(activity->timestamp() + activity->duration());
    }
    for (auto& [thread, edges] : threads) std::sort(edges.begin(), edges.end());
    return threads;
  }

  // The same for a call of which torch does not know the operator: the shorter part of a call on both sides of an edge is cut
  // off.
  static void keep_within(GenericTraceActivity& call, const Edges& threads) {
    const auto found = threads.find(call.resource);
    if (found == threads.end()) return;
    const std::vector<int64_t>& edges = found->second;
    for (auto edge = std::upper_bound(edges.begin(), edges.end(), call.startTime); edge != edges.end() && *edge < call.endTime;
         ++edge) {
      const int64_t before = *edge - call.startTime, after = call.endTime - *edge;
      if (std::min(before, after) >= kMostClockErrorNs) continue;
      if (after <= before) {
        call.endTime = *edge;
        return;
      }
      call.startTime = *edge;
    }
  }

  int32_t row_of(const SoftnpuTaskRecord& task) {
    int32_t row = static_cast<int32_t>(task.stream);
    std::string name = "stream " + std::to_string(task.stream);
    if (task.stream == SOFTNPU_NO_STREAM) {
      const auto [found, is_new] = threads_.try_emplace(task.thread, kFirstRowWithoutStream + int32_t(threads_.size()));
      row = found->second;
      name = "copies in the call, thread " + std::to_string(task.thread);
    }
    rows_.try_emplace({task.device, row}, std::move(name));
    return row;
  }

  GenericTraceActivity& add_task(const acl::RecordedTask& task) {
    const SoftnpuTaskRecord& record = task.record;
    ActivityType type = ActivityType::CONCURRENT_KERNEL;
    std::string name = record.name;
    const acl::TaskClass kind = acl::class_of(record);
    if (kind == acl::TaskClass::kCopy) {
      type = ActivityType::GPU_MEMCPY;
      name = std::string("Memcpy ") + acl::direction_name(record.direction) + " (" + record.name + ")";
    } else if (kind == acl::TaskClass::kFill) {
      type = ActivityType::GPU_MEMSET;
      name = std::string("Memset (") + record.name + ")";
    }
    buffer_->emplace_activity(buffer_->span, type, name);
    GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = static_cast<int64_t>(record.start_ns);
    activity.endTime = static_cast<int64_t>(record.end_ns);
    activity.id = correlation_of(record.correlation);
    activity.device = record.device;
    activity.resource = row_of(record);
    activity.threadId = static_cast<int32_t>(record.thread);
    activity.flow.id = static_cast<uint32_t>(activity.id);
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = 0;
    activity.addMetadata("device", record.device);
    activity.addMetadata("stream", activity.resource);
    activity.addMetadata("correlation", activity.id);
    activity.addMetadata("wait (ns)", record.start_ns - std::min(record.enqueue_ns, record.start_ns));
    if (record.external != 0) activity.addMetadata("External id", record.external);
    if (record.bytes != 0) activity.addMetadata("bytes", record.bytes);
    if (!task.tensors.empty()) {
      activity.addMetadata("Input Dims", shapes_of(task.tensors, false));
      activity.addMetadata("Output Dims", shapes_of(task.tensors, true));
    }
    return activity;
  }

  GenericTraceActivity& add_call(const SoftnpuCallRecord& call, bool has_task) {
    buffer_->emplace_activity(buffer_->span, ActivityType::PRIVATEUSE1_RUNTIME, call.name);
    GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = static_cast<int64_t>(call.start_ns);
    activity.endTime = static_cast<int64_t>(call.end_ns);
    activity.device = getpid();
    activity.resource = static_cast<int32_t>(call.thread);
    activity.threadId = static_cast<int32_t>(call.thread);
    if (has_task) {
      activity.id = correlation_of(call.correlation);
      activity.flow.id = static_cast<uint32_t>(activity.id);
      activity.flow.type = libkineto::kLinkAsyncCpuGpu;
      activity.flow.start = 1;
      activity.addMetadata("correlation", activity.id);
    }
    return activity;
  }

  int64_t session_ = 0;
  acl::DeviceRecords records_;
  std::mutex mutex_;
  std::vector<uint64_t> operators_;  // torch's numbers of operators, from all threads
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::map<std::pair<int64_t, int64_t>, std::string> rows_;  // (device, row) -> name
  std::unordered_map<uint32_t, int32_t> threads_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "npu";
    return name;
  }

  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                                 ActivityType::GPU_MEMSET, ActivityType::PRIVATEUSE1_RUNTIME};
    return types;
  }

  // Returns null, so that nothing is recorded, if torch asked for the host only or the device library keeps no records.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    if (!types.contains(ActivityType::PRIVATEUSE1_RUNTIME) || acl::softnpu_profiler() == nullptr) return nullptr;
    return std::make_unique<Session>();
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace torch_npu

#endif
