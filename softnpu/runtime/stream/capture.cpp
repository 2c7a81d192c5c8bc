#include "runtime/stream/capture.h"

#include <algorithm>

#include "runtime/stream/context.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

Status check_mode(aclmdlRICaptureMode mode) {
  if (unsigned(mode) <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text("mode ", int(mode), " is neither 0 (global), 1 (thread-local) nor 2 (relaxed)")};
}

Status not_captured(const Stream& stream) {
  return {ACL_ERROR_RT_STREAM_NOT_CAPTURED, text("stream ", stream.id(), " is not captured; call aclmdlRICaptureBegin first")};
}

}  // namespace

Captures::Capture* Captures::find(const Stream& stream, uint32_t* lane) {
  for (const auto& capture : captures_) {
    const auto found = std::ranges::find(capture->lanes, &stream, &Lane::stream);
    if (found == capture->lanes.end()) continue;
    if (lane != nullptr) *lane = uint32_t(found - capture->lanes.begin());
    return capture.get();
  }
  return nullptr;
}

Captures::Capture* Captures::find(uint64_t number) {
  const auto found = std::ranges::find(captures_, number, [](const auto& capture) { return capture->number; });
  return found == captures_.end() ? nullptr : found->get();
}

Status Captures::spoil(Capture& capture, aclError code, std::string why) {
  if (capture.spoiled.empty()) capture.spoiled = why;
  return {code, std::move(why)};
}

Status Captures::spoiled(const Capture& capture) {
  return {ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, text("the capture was invalidated by an earlier call: ", capture.spoiled)};
}

Captures::Lane& Captures::join(Capture& capture, Stream& stream) {
  stream.is_recorded.store(true, std::memory_order_relaxed);
  return capture.lanes.emplace_back(Lane{.stream = &stream, .newest = {}, .after = {}, .group = {}});
}

std::unique_ptr<Captures::Capture> Captures::finish(Capture& capture) {
  for (const Lane& lane : capture.lanes) lane.stream->is_recorded.store(false, std::memory_order_relaxed);
  const auto entry = std::ranges::find(captures_, &capture, [](const auto& other) { return other.get(); });
  std::unique_ptr<Capture> finished = std::move(*entry);
  captures_.erase(entry);
  active_.fetch_sub(1, std::memory_order_relaxed);
  return finished;
}

void Captures::discard(const Ref<GraphSlot>& slot) {
  if (!graph_pool().withdraw(slot)) return;
  drop_groups(*slot);
  slot->close();
  graph_pool().give_back(*slot);
}

// Call it with mutex_ held. A stream is withdrawn before its destruction calls forget(). So forget() will remove a stream that is
// live now.
Status Captures::check_live(const Stream& stream) {
  if (stream.is_live()) return {};
  return {ACL_ERROR_RT_INVALID_HANDLE, text("stream ", stream.id(), " is being destroyed by another thread")};
}

Status Captures::begin(Stream& stream, aclmdlRICaptureMode mode) {
  SOFTNPU_RETURN_IF_ERROR(check_mode(mode));
  if (&stream == &stream.context().default_stream()) {
    return {ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "the default stream cannot be captured; make a stream for it"};
  }
  const std::lock_guard guard(mutex_);
  SOFTNPU_RETURN_IF_ERROR(check_live(stream));
  if (stream.is_recorded.load(std::memory_order_relaxed)) {
    return {ACL_ERROR_RT_STREAM_CAPTURED, text("stream ", stream.id(), " is captured, or updates a graph, already")};
  }
  GraphSlot* slot = graph_pool().take();
  if (slot == nullptr) return {ACL_ERROR_RT_NO_STREAM_RESOURCE, "the process has too many graphs; destroy some"};
  Graph::Ref graph = Graph::create(stream.device());
  slot->open(graph->share());
  captures_.push_back(std::make_unique<Capture>(Capture{.number = ++count_,
                                                        .mode = mode,
                                                        .thread = std::this_thread::get_id(),
                                                        .slot = graph_pool().publish(*slot),
                                                        .graph = std::move(graph),
                                                        .lanes = {},
                                                        .spoiled = {}}));
  active_.fetch_add(1, std::memory_order_relaxed);
  join(*captures_.back(), stream);
  return {};
}

Result<Ref<GraphSlot>> Captures::end(Stream& stream) {
  std::unique_ptr<Capture> capture;
  {
    const std::lock_guard guard(mutex_);
    Capture* const found = find(stream);
    if (found == nullptr) return not_captured(stream);
    if (found->lanes.front().stream != &stream) {
      return Status(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
                    text("the capture began with stream ", found->lanes.front().stream->id(), " and has to end with it"));
    }
    if (found->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && found->thread != std::this_thread::get_id()) {
      return Status(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                    "the capture began on another thread and has to end there, unless its mode is relaxed");
    }
    capture = finish(*found);
  }
  const auto unjoined = [&]() -> const Lane* {
    const Lane& first = capture->lanes.front();
    for (size_t i = 1; i < capture->lanes.size(); ++i) {
      const std::vector<uint32_t>& own = capture->lanes[i].newest;
      const uint32_t newest = i < own.size() ? own[i] : 0;
      if (newest > (i < first.newest.size() ? first.newest[i] : 0)) return &capture->lanes[i];
    }
    return nullptr;
  };
  Status status;
  if (!capture->spoiled.empty()) {
    status = spoiled(*capture);
  } else if (const Lane* lane = unjoined()) {
    status = {ACL_ERROR_RT_STREAM_UNJOINED,
              text("stream ", lane->stream->id(), " has captured tasks that stream ", stream.id(),
                   " does not wait for; record an event behind them and wait for it before the capture ends")};
  } else if (std::ranges::any_of(capture->lanes, [](const Lane& lane) { return lane.group.has_value(); })) {
    status = {ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "a task group was not ended; call aclmdlRICaptureTaskGrpEnd"};
  }
  if (!status.ok()) {
    discard(capture->slot);
    return status;
  }
  capture->slot->is_captured.store(false, std::memory_order_release);
  return capture->slot;
}

aclmdlRICaptureStatus Captures::status(Stream& stream, aclmdlRI* graph) {
  const std::lock_guard guard(mutex_);
  const Capture* const capture = find(stream);
  *graph = capture == nullptr ? nullptr : GraphPool::handle_of(capture->slot);
  if (capture == nullptr) return ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  return capture->spoiled.empty() ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
}

std::optional<Status> Captures::record(Stream& stream, const SoftnpuTaskKind& kind, const void* payload, size_t bytes,
                                       uint64_t cost) {
  const std::lock_guard guard(mutex_);
  if (const auto update = updates_.find(&stream); update != updates_.end()) {
    update->second.tasks.push_back(std::make_unique<RecordedTask>(kind, payload, bytes, cost));
    return Status();
  }
  uint32_t number = 0;
  Capture* const capture = find(stream, &number);
  if (capture == nullptr) return std::nullopt;
  if (!capture->spoiled.empty()) return spoiled(*capture);
  Lane& lane = capture->lanes[number];
  const uint32_t task =
      capture->graph->add(std::make_unique<RecordedTask>(kind, payload, bytes, cost), number, std::exchange(lane.after, {}));
  if (lane.newest.size() <= number) lane.newest.resize(number + 1);
  lane.newest[number] = task + 1;
  if (lane.group) lane.group->push_back(task);
  return Status();
}

std::shared_ptr<const CaptureMark> Captures::mark(Stream& stream) {
  const std::lock_guard guard(mutex_);
  uint32_t lane = 0;
  const Capture* const capture = find(stream, &lane);
  if (capture == nullptr) return nullptr;
  return std::make_shared<const CaptureMark>(CaptureMark{capture->number, capture->lanes[lane].newest});
}

Status Captures::wait(Stream& stream, const CaptureMark& mark) {
  const std::lock_guard guard(mutex_);
  Capture* const capture = find(mark.capture);
  uint32_t number = 0;
  Capture* const own = find(stream, &number);
  if (own != nullptr && own != capture) {
    return spoil(*own, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                 text("stream ", stream.id(), " was told to wait for an event of another capture"));
  }
  if (capture == nullptr) {
    return {ACL_ERROR_RT_EVENT_CAPTURED,
            "the event was recorded in a capture that is over, where nothing ran; record it again before it is waited for"};
  }
  if (own == nullptr) SOFTNPU_RETURN_IF_ERROR(check_live(stream));
  if (own == nullptr && stream.is_recorded.load(std::memory_order_relaxed)) {
    return spoil(*capture, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                 text("stream ", stream.id(), " updates a graph and cannot join a capture"));
  }
  Lane& lane = own == nullptr ? join(*capture, stream) : own->lanes[number];
  lane.newest.resize(std::max(lane.newest.size(), mark.newest.size()));
  for (size_t i = 0; i < mark.newest.size(); ++i) {
    if (mark.newest[i] <= lane.newest[i]) continue;
    lane.newest[i] = mark.newest[i];
    lane.after.push_back(mark.newest[i] - 1);
  }
  return {};
}

Status Captures::refuse_outside(Stream& stream) {
  const std::lock_guard guard(mutex_);
  Capture* const capture = find(stream);
  if (capture == nullptr) return {};
  return spoil(*capture, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
               text("captured stream ", stream.id(),
                    " was told to wait for an event that was recorded outside of the capture; wait for it before the capture"));
}

Status Captures::refuse_wait(Stream& stream, const char* what) {
  const std::lock_guard guard(mutex_);
  Capture* const capture = find(stream);
  if (capture == nullptr) return {};
  return spoil(
      *capture, ACL_ERROR_RT_STREAM_CAPTURED,
      text(what, " stream ", stream.id(), " is not possible while it is captured: its tasks are recorded and do not run"));
}

Status Captures::refuse_event(const CaptureMark& mark) {
  Status status(ACL_ERROR_RT_EVENT_CAPTURED,
                "the event was recorded on a captured stream, where nothing runs: it cannot be waited for or asked about");
  const std::lock_guard guard(mutex_);
  if (Capture* const capture = find(mark.capture)) static_cast<void>(spoil(*capture, status.code(), status.message()));
  return status;
}

Status Captures::check_unsafe(const char* what) {
  const aclmdlRICaptureMode mode = thread_state().capture_mode;
  if (mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return {};
  const bool minds_others = mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  Status status;
  const std::lock_guard guard(mutex_);
  for (const auto& capture : captures_) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool forbids = is_own ? capture->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED
                                : minds_others && capture->mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    if (!forbids) continue;
    status = spoil(*capture, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
                   text(what, " while stream ", capture->lanes.front().stream->id(), " is captured",
                        is_own ? "" : " by another thread, in global mode,", " is not possible: it would not be recorded"));
  }
  return status;
}

Status Captures::exchange_mode(aclmdlRICaptureMode* mode) {
  SOFTNPU_RETURN_IF_ERROR(check_mode(*mode));
  std::swap(*mode, thread_state().capture_mode);
  return {};
}

Status Captures::group_begin(Stream& stream) {
  const std::lock_guard guard(mutex_);
  uint32_t lane = 0;
  Capture* const capture = find(stream, &lane);
  if (capture == nullptr) return not_captured(stream);
  if (!capture->spoiled.empty()) return spoiled(*capture);
  if (capture->lanes[lane].group)
    return {ACL_ERROR_RT_PARAM_INVALID, "a task group was begun on the stream already; end it first"};
  capture->lanes[lane].group.emplace();
  return {};
}

Result<Ref<TaskGroup>> Captures::group_end(Stream& stream) {
  const std::lock_guard guard(mutex_);
  uint32_t lane = 0;
  Capture* const capture = find(stream, &lane);
  if (capture == nullptr) return not_captured(stream);
  if (!capture->spoiled.empty()) return spoiled(*capture);
  std::optional<std::vector<uint32_t>> tasks = std::exchange(capture->lanes[lane].group, std::nullopt);
  if (!tasks) return Status(ACL_ERROR_RT_PARAM_INVALID, "no task group was begun on the stream");
  TaskGroup* group = task_group_pool().take();
  if (group == nullptr) return Status(ACL_ERROR_RT_NO_STREAM_RESOURCE, "the process has too many task groups; destroy graphs");
  group->graph = capture->slot;
  group->tasks = std::move(*tasks);
  return task_group_pool().publish(*group);
}

Status Captures::update_begin(Stream& stream, TaskGroup& group) {
  const std::lock_guard guard(mutex_);
  SOFTNPU_RETURN_IF_ERROR(check_live(stream));
  if (stream.is_recorded.load(std::memory_order_relaxed)) {
    return {ACL_ERROR_RT_STREAM_CAPTURED, text("stream ", stream.id(), " is captured, or updates a graph, already")};
  }
  if (!group.graph.is_live()) {
    return {ACL_ERROR_RT_INVALID_HANDLE, "the graph of the task group was destroyed"};
  }
  if (group.graph->is_captured.load(std::memory_order_acquire)) {
    return {ACL_ERROR_RT_MODEL_CAPTURED, "the graph of the task group is still being captured"};
  }
  updates_[&stream] = {group.graph, group.tasks, {}};
  stream.is_recorded.store(true, std::memory_order_relaxed);
  return {};
}

Status Captures::update_end(Stream& stream) {
  Update update;
  {
    const std::lock_guard guard(mutex_);
    const auto found = updates_.find(&stream);
    if (found == updates_.end()) {
      return {ACL_ERROR_RT_STREAM_NOT_CAPTURED,
              text("stream ", stream.id(), " updates nothing; call aclmdlRICaptureTaskUpdateBegin first")};
    }
    update = std::move(found->second);
    updates_.erase(found);
    stream.is_recorded.store(false, std::memory_order_relaxed);
  }
  const Graph::Ref graph = update.graph.is_live() ? update.graph->graph() : nullptr;
  if (graph == nullptr) return {ACL_ERROR_RT_INVALID_HANDLE, "the graph of the task group was destroyed"};
  return graph->update(update.numbers, std::move(update.tasks));
}

void Captures::drop_groups(const GraphSlot& graph) {
  const std::lock_guard guard(mutex_);
  task_group_pool().for_each_live([&](const Ref<TaskGroup>& group) {
    if (group->graph.object != &graph || !task_group_pool().withdraw(group)) return;
    group->tasks.clear();
    task_group_pool().give_back(*group);
  });
}

bool Captures::alter(Stream& stream, const std::function<bool(RecordedTask&)>& alter) {
  const std::lock_guard guard(mutex_);
  if (const auto update = updates_.find(&stream); update != updates_.end()) {
    auto& tasks = update->second.tasks;
    return std::any_of(tasks.rbegin(), tasks.rend(), [&](const auto& task) { return alter(*task); });
  }
  uint32_t lane = 0;
  const Capture* const capture = find(stream, &lane);
  if (capture == nullptr) return false;
  for (uint32_t i = capture->graph->size(); i-- > 0;) {
    if (capture->graph->lane_of(i) == lane && alter(capture->graph->task(i))) return true;
  }
  return false;
}

void Captures::forget(Stream& stream) {
  std::unique_ptr<Capture> finished;
  {
    const std::lock_guard guard(mutex_);
    updates_.erase(&stream);
    uint32_t number = 0;
    if (Capture* const capture = find(stream, &number)) {
      static_cast<void>(spoil(*capture, ACL_ERROR_RT_STREAM_CAPTURED, text("stream ", stream.id(), " was destroyed")));
      if (number == 0) {
        finished = finish(*capture);
      } else {
        capture->lanes.erase(capture->lanes.begin() + number);
      }
    }
  }
  stream.is_recorded.store(false, std::memory_order_relaxed);
  if (finished != nullptr) discard(finished->slot);
}

TaskGroupPool& task_group_pool() {
  static auto* pool = new TaskGroupPool;
  return *pool;
}

Captures& captures() {
  static auto* captures = new Captures;
  return *captures;
}

}  // namespace softnpu
