#include "core/memory/memory_snapshot.h"

#include <c10/core/AllocatorConfig.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include "base/options.h"
#include "bindings/bind.h"
#include "core/memory/allocator.h"
#include "core/memory/allocator_settings.h"
#include "core/memory/out_of_memory.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

// Collects stacks. finish() looks up the frames of all of them at once and writes them into the dicts.
class Frames {
 public:
  void put_into(py::dict dict, const StackTrace& stack) {
    if (stack == nullptr) {
      dict["frames"] = py::list();
      return;
    }
    stacks_.push_back(torch::getCapturedTracebackFromContext(stack));
    dicts_.push_back(std::move(dict));
  }

  void finish() {
    const torch::SymbolizedTracebacks found = torch::symbolize(stacks_);
    std::vector<py::dict> frames;
    for (const torch::unwind::Frame& frame : found.all_frames) {
      py::dict& dict = frames.emplace_back();
      dict["name"] = frame.funcname;
      dict["filename"] = frame.filename;
      dict["line"] = frame.lineno;
    }
    for (size_t i = 0; i < dicts_.size(); ++i) {
      py::list list;
      for (const uint64_t frame : found.tracebacks.at(i)) list.append(frames.at(frame));
      dicts_[i]["frames"] = std::move(list);
    }
  }

 private:
  std::vector<torch::CapturedTraceback*> stacks_;
  std::vector<py::dict> dicts_;
};

uintptr_t handle_of(c10::DeviceIndex device, c10::StreamId stream) {
  return reinterpret_cast<uintptr_t>(NPUStream(device, stream).stream());
}

py::dict show(const BlockView& block, Frames& frames) {
  constexpr std::array kStates = {"active_allocated", "active_pending_free", "inactive"};
  py::dict dict;
  dict["address"] = block.address;
  dict["size"] = block.size;
  dict["requested_size"] = block.requested;
  dict["state"] = kStates.at(block.state);
  frames.put_into(dict, block.stack);
  return dict;
}

py::dict show(const SegmentView& segment, Frames& frames) {
  py::dict dict;
  dict["device"] = int{segment.device};
  dict["address"] = segment.address;
  dict["total_size"] = segment.total;
  dict["allocated_size"] = segment.allocated;
  dict["active_size"] = segment.active;
  dict["requested_size"] = segment.requested;
  dict["stream"] = handle_of(segment.device, segment.stream);
  dict["segment_type"] = segment.is_small ? "small" : "large";
  dict["segment_pool_id"] = segment.pool;
  dict["is_expandable"] = segment.is_expandable;
  dict["frames"] = py::list();
  py::list blocks;
  for (const BlockView& block : segment.blocks) blocks.append(show(block, frames));
  dict["blocks"] = std::move(blocks);
  return dict;
}

py::dict show(const MemoryEvent& event, c10::DeviceIndex device, Frames& frames) {
  constexpr std::array kActions = {"alloc",         "free_requested", "free_completed",
                                   "segment_alloc", "segment_free",   "segment_map",
                                   "segment_unmap", "snapshot",       "oom"};
  py::dict dict;
  dict["action"] = kActions.at(event.action);
  dict[event.action == MemoryEvent::kOutOfMemory ? "device_free" : "addr"] = event.address;
  dict["size"] = event.size;
  dict["stream"] = handle_of(device, event.stream);
  dict["pool_id"] = event.pool;
  dict["time_us"] = event.time_us;
  dict["compile_context"] = "N/A";
  dict["user_metadata"] = "";
  frames.put_into(dict, event.stack);
  return dict;
}

py::dict show_settings() {
  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  read_allocator_environment();
  const CacheSettings settings = CacheSettings::read();
  py::dict dict, divisions;
  size_t megabytes = 1;
  for (const size_t count : Config::roundup_power2_divisions()) {
    divisions[py::str(std::to_string(megabytes))] = count;
    megabytes *= 2;
  }
  dict["PYTORCH_NPU_ALLOC_CONF"] = Config::last_allocator_settings();
  dict["max_split_size"] = static_cast<int64_t>(settings.max_split);  // -1: no limit
  dict["garbage_collection_threshold"] = settings.collection_threshold;
  dict["expandable_segments"] = settings.expands;
  dict["release_lock_on_malloc"] = settings.asks_unlocked;
  dict["roundup_power2_divisions"] = std::move(divisions);
  return dict;
}

// The layout of torch.cuda.memory._snapshot(), which torch.cuda._memory_viz reads. With `pool` only the segments of that pool.
py::dict snapshot(std::optional<c10::MempoolId_t> pool) {
  Frames frames;
  py::list segments, traces;
  const std::vector<SegmentView> views = memory_segments(pool);
  for (const SegmentView& segment : views) segments.append(show(segment, frames));
  std::vector<std::vector<MemoryEvent>> events;  // own the stacks until finish()
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    py::list trace;
    for (const MemoryEvent& event : events.emplace_back(memory_events(device))) trace.append(show(event, device, frames));
    traces.append(std::move(trace));
  }
  frames.finish();
  py::dict dict;
  dict["segments"] = std::move(segments);
  dict["device_traces"] = std::move(traces);
  dict["allocator_settings"] = show_settings();
  dict["external_annotations"] = py::list();
  return dict;
}

// `enabled` None turns the history off. The Python caller has checked the texts.
void record_history(const std::optional<std::string>& enabled, const std::optional<std::string>& context, bool has_cpp_frames,
                    size_t most_events, bool clear) {
  if (!enabled) {
    record_memory_history(std::nullopt);
    clear_memory_history();
    return;
  }
  if (clear) clear_memory_history();
  const Stacks stacks = !context              ? Stacks::kNever
                        : *context == "state" ? Stacks::kOfLiveBlocks
                        : *context == "alloc" ? Stacks::kOfAllocations
                                              : Stacks::kAlways;
  record_memory_history(HistoryOptions{
      .keeps_trace = *enabled == "all", .stacks = stacks, .has_cpp_frames = has_cpp_frames, .most_events = most_events});
}

// Any thread may call the observer, until the process ends.
void attach_observer(py::function observer) {
  auto* shared = new py::function(std::move(observer));
  attach_out_of_memory_observer([shared](const OutOfMemory& event) {
    const py::gil_scoped_acquire gil;
    (*shared)(int{event.device}, event.requested, event.total, event.free);
  });
}

}  // namespace

void bind_memory_snapshot(py::module_& module) {
  module.def("_npu_memory_snapshot", snapshot);
  module.def("_npu_record_memory_history", record_history);
  module.def("_npu_attach_out_of_memory_observer", attach_observer);
  module.def("_npu_oom_snapshot", [] {
    const Options& o = options();
    return py::make_tuple(o.oom_snapshot, o.oom_history, o.oom_snapshot_dir);
  });
}

}  // namespace torch_npu::bindings
