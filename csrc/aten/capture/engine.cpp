#include "aten/capture/engine.h"

#include "aten/capture/active.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu::capture {
namespace {

constexpr size_t kRowsOfBatch = 4096;
constexpr std::chrono::milliseconds kPause(100);
std::atomic<std::string (*)()> line_source{nullptr};

// Operators with uninitialised results, and queries about the memory of a tensor.
bool is_left_out(const std::string& name) {
  for (const char* prefix : {"empty", "new_empty", "resize", "is_pinned", "record_stream", "_has_compatible"}) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

// The active capture, and the newest one. Both may be the same.
struct Captures {
  std::mutex mutex;
  std::shared_ptr<ActiveCapture> active;
  std::shared_ptr<ActiveCapture> last;
};
std::atomic<Captures*>& captures_place() {
  static std::atomic<Captures*> place{new Captures};
  return place;
}
Captures& captures() { return *captures_place().load(); }
std::shared_ptr<ActiveCapture> last_capture() {
  const std::lock_guard lock(captures().mutex);
  return captures().last;
}

bool is_ready(const Entry& entry) {
  for (const auto* values : {&entry.inputs, &entry.outputs}) {
    for (const CapturedValue& value : *values) {
      for (const CapturedTensorPtr& tensor : value.tensors) {
        if (tensor != nullptr && tensor->batch != nullptr && !tensor->batch->is_flushed()) return false;
      }
    }
  }
  return true;
}

}  // namespace

bool ActiveCapture::chooses(const std::string& name) const {
  return !is_left_out(name) && (!operators.has_value() || std::regex_match(name, *operators));
}

void ActiveCapture::fail(const char* reason) {
  if (failed++ != 0) return;
  const std::lock_guard lock(mutex);
  failure = reason;
}

std::shared_ptr<ActiveCapture> current_capture() {
  const std::lock_guard lock(captures().mutex);
  return captures().active;
}

std::string python_line() {
  const auto source = line_source.load();
  return source == nullptr ? std::string() : source();
}

CaptureThread& this_thread() {
  static thread_local auto* const state = new CaptureThread;  // a thread of PyTorch lives as long as the process
  return *state;
}

void wait_for_room(ActiveCapture& capture, size_t bytes) {
  const auto has_room = [&] {
    return capture.closed || capture.abandoned || capture.queued == 0 || capture.queued + bytes <= kMostQueued;
  };
  bool waits = false;
  {
    const std::lock_guard lock(capture.mutex);
    waits = !has_room();
  }
  if (waits) {
    const InterpreterUnlocked unlocked;  // destroyed after the lock: a thread that holds the GIL may wait for the mutex
    std::unique_lock lock(capture.mutex);
    while (!has_room()) {
      lock.unlock();
      // The oldest entry may wait for statistics of a thread or stream that is idle now and would never flush them.
      if (capture.options.statistics && !captures_exist()) capture.statistics.flush_all();
      lock.lock();
      capture.changed.notify_all();
      capture.changed.wait_for(lock, kPause, has_room);
    }
  }
}

void enqueue(ActiveCapture& capture, std::unique_ptr<Entry> entry) {
  if (capture.options.statistics) capture.statistics.flush_of_thread(kRowsOfBatch);
  wait_for_room(capture, entry->bytes);
  const std::lock_guard lock(capture.mutex);
  if (capture.closed || capture.abandoned) return;
  capture.queued += entry->bytes;
  capture.queue.push_back(std::move(entry));
  capture.changed.notify_all();
}

void flush_node(CaptureThread& thread) {
  if (thread.node == nullptr) return;
  const OwnCalls own;
  const std::shared_ptr<ActiveCapture> capture = std::move(thread.node_capture);
  if (capture->options.overflow) {
    thread.node.reset();
    return;
  }
  enqueue(*capture, std::move(thread.node));
}

void Engine::start(Options options) {
  const auto capture = std::make_shared<ActiveCapture>(std::move(options));
  const std::lock_guard lock(captures().mutex);
  TORCH_CHECK(captures().active == nullptr, "a dump is already active in this process: end it before you start another one");
  captures().active = captures().last = capture;
  capture->handle = at::addGlobalCallback(observer());
}

void Engine::stop() {
  std::shared_ptr<ActiveCapture> capture;
  {
    const std::lock_guard lock(captures().mutex);
    capture = std::move(captures().active);
    captures().active = nullptr;
  }
  if (capture == nullptr) return;
  at::removeCallback(capture->handle);
  flush_node(this_thread());
  {
    const std::lock_guard lock(capture->mutex);
    capture->closed = true;
  }
  {
    const OwnCalls own;
    capture->statistics.flush_all();
  }
  const std::lock_guard lock(capture->mutex);
  capture->stopped = true;
  capture->changed.notify_all();
}

std::unique_ptr<Entry> Engine::next() {
  this_thread().busy = true;  // this is the writer's thread: its operators are not recorded
  const std::shared_ptr<ActiveCapture> capture = last_capture();
  if (capture == nullptr) return nullptr;
  std::unique_ptr<Entry> entry;
  {
    std::unique_lock lock(capture->mutex);
    capture->queued -= capture->taken;
    capture->taken = 0;
    capture->changed.notify_all();
    capture->changed.wait(lock,
                          [&] { return capture->stopped || (!capture->queue.empty() && is_ready(*capture->queue.front())); });
    if (capture->queue.empty()) return nullptr;
    entry = std::move(capture->queue.front());
    capture->queue.pop_front();
    capture->taken = entry->bytes;
  }
  for (const c10::Event& event : entry->copied) event.synchronize();
  return entry;
}

void Engine::abandon() {
  const std::shared_ptr<ActiveCapture> capture = last_capture();
  if (capture == nullptr) return;
  const std::lock_guard lock(capture->mutex);
  capture->abandoned = true;
  capture->queue.clear();
  capture->changed.notify_all();
}

bool Engine::is_active() { return current_capture() != nullptr; }

int64_t Engine::skipped_in_graphs() {
  const std::shared_ptr<ActiveCapture> capture = last_capture();
  return capture == nullptr ? 0 : capture->in_graphs.load();
}

int64_t Engine::failed() {
  const std::shared_ptr<ActiveCapture> capture = last_capture();
  return capture == nullptr ? 0 : capture->failed.load();
}

std::string Engine::failure() {
  const std::shared_ptr<ActiveCapture> capture = last_capture();
  if (capture == nullptr) return {};
  const std::lock_guard lock(capture->mutex);
  return capture->failure;
}

size_t Engine::queued() {
  const std::shared_ptr<ActiveCapture> capture = last_capture();
  if (capture == nullptr) return 0;
  const std::lock_guard lock(capture->mutex);
  return capture->queued;
}

void Engine::forget_after_fork() {
  captures_place().store(new Captures);  // a thread of the parent may have held the old mutex during the fork
  this_thread().node.reset();
}

void Engine::set_line_source(std::string (*line)()) { line_source.store(line); }

void Engine::set_module(const std::string& name) { this_thread().module = name; }

}  // namespace torch_npu::capture
