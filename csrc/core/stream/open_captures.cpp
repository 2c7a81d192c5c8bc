#include "core/stream/open_captures.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "acl/symbol.h"
#include "core/device/allocation_watchers.h"
#include "core/stream/all_work.h"

namespace torch_npu {

constinit std::atomic<int> detail::captures{0};
constinit std::atomic<uint64_t> detail::replays{0};

namespace {

struct Capture {
  aclmdlRI handle;  // null: the thread that began the capture has ended, which ended the capture
  NPUStream stream;
  c10::MempoolId_t pool;
  std::thread::id thread;
  NPUGraph* owner;                    // null: the capture was abandoned
  std::function<void()> after_end{};  // of an abandoned capture
};

struct Registry {
  std::mutex mutex;
  std::vector<Capture> captures;  // guarded by mutex

  static Registry& instance() {
    static auto* const leaked = new Registry;
    return *leaked;
  }

  auto find(const NPUGraph& owner) {
    return std::ranges::find_if(captures, [&](const Capture& capture) { return capture.owner == &owner; });
  }
};

std::atomic<int> abandoned{0};

// Ends the capture, unless the code is ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD.
aclError end_on_device(NPUStream stream, aclmdlRI* graph) {
  const BoundDevice bound(stream.device_index());
  return ACL_FN(aclmdlRICaptureEnd)(stream.stream(), graph);
}

void count_end() {
  --detail::allocation_watchers;
  --detail::captures;
}

// Ends a capture of this thread and destroys its graph.
void end_unwanted(Capture& capture) {
  aclmdlRI graph = nullptr;
  end_on_device(capture.stream, &graph);
  if (graph != nullptr) ACL_FN(aclmdlRIDestroy)(graph);
  ACL_FN(aclGetRecentErrMsg)();  // clears the message: it must not appear in a later error
  capture.handle = nullptr;
  count_end();
}

// Ends the captures of this thread for which `condition` holds. Abandoned ones are removed from the registry; the others stay
// until their owner calls end_capture() or abandon_capture().
template <typename Condition>
void end_own(const Condition& condition) {
  std::vector<std::function<void()>> ended;  // called without the lock
  {
    Registry& known = Registry::instance();
    const std::lock_guard lock(known.mutex);
    for (Capture& capture : known.captures) {
      if (capture.thread != std::this_thread::get_id() || capture.handle == nullptr || !condition(capture)) continue;
      end_unwanted(capture);
      if (capture.owner != nullptr) continue;
      --abandoned;
      ended.push_back(std::move(capture.after_end));
    }
    std::erase_if(known.captures, [](const Capture& capture) { return capture.handle == nullptr && capture.owner == nullptr; });
  }
  for (const auto& after_end : ended) after_end();
}

struct EndWithThread {
  ~EndWithThread() {
    if (is_in_bad_fork()) return;
    try {
      end_own([](const Capture&) { return true; });
    } catch (const std::exception&) {  // the device library may be gone at exit
    }
  }
};

// The graph that the stream is captured for; null if the stream is not captured.
aclmdlRI captured_graph(NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = nullptr;
  ACL_CALL(aclmdlRICaptureGetInfo, stream.stream(), &status, &graph);
  return status == ACL_MODEL_RI_CAPTURE_STATUS_NONE ? nullptr : graph;
}

}  // namespace

void begin_capture(NPUGraph& owner, NPUStream stream, c10::MempoolId_t pool, aclmdlRICaptureMode mode) {
  thread_local const EndWithThread end_with_thread{};
  static_cast<void>(&end_with_thread);
  end_abandoned_captures();
  const BeginningCapture turn;
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclmdlRICaptureBegin, stream.stream(), mode);
  ++detail::captures;
  ++detail::allocation_watchers;
  Registry& known = Registry::instance();
  const std::lock_guard lock(known.mutex);
  known.captures.push_back({captured_graph(stream), stream, pool, std::this_thread::get_id(), &owner});
}

std::optional<EndedCapture> end_capture(const NPUGraph& owner) {
  Registry& known = Registry::instance();
  const std::lock_guard lock(known.mutex);
  const auto capture = known.find(owner);
  EndedCapture ended;
  if (capture->handle == nullptr) {
    ended.failure =
        "nothing was captured: the thread that began the capture has ended, and the capture with it. Begin and end a capture on "
        "one thread";
  } else {
    const aclError code = end_on_device(capture->stream, &ended.graph);
    if (code == ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD) {
      ACL_FN(aclGetRecentErrMsg)();  // clears the message: the caller throws one of its own
      return std::nullopt;
    }
    if (code != ACL_SUCCESS) ended = {nullptr, acl::describe(code, "aclmdlRICaptureEnd")};
    count_end();
  }
  known.captures.erase(capture);
  return ended;
}

void abandon_capture(const NPUGraph& owner, std::function<void()> after_end) {
  Registry& known = Registry::instance();
  {
    const std::lock_guard lock(known.mutex);
    const auto capture = known.find(owner);
    if (capture->handle != nullptr) {
      capture->owner = nullptr;
      capture->after_end = std::move(after_end);
      ++abandoned;
      return;
    }
    known.captures.erase(capture);
  }
  after_end();
}

void end_abandoned_captures() {
  if (abandoned.load(std::memory_order_relaxed) == 0) return;
  end_own([](const Capture& capture) { return capture.owner == nullptr; });
}

std::optional<CapturedFor> capture_of(NPUStream stream) {
  before_wait();
  if (!captures_exist()) return std::nullopt;
  const aclmdlRI graph = captured_graph(stream);
  if (graph == nullptr) return std::nullopt;
  Registry& known = Registry::instance();
  const std::lock_guard lock(known.mutex);
  const auto found = std::ranges::find(known.captures, graph, &Capture::handle);
  if (found == known.captures.end()) return std::nullopt;
  return CapturedFor{found->owner, found->pool};
}

std::optional<c10::MempoolId_t> capture_pool(NPUStream stream) {
  const std::optional<CapturedFor> found = capture_of(stream);
  return found ? std::optional(found->pool) : std::nullopt;
}

bool is_capturing(NPUStream stream) {
  before_wait();
  return captures_exist() && captured_graph(stream) != nullptr;
}

void refuse_wait_in_capture(const char* what, const char* why) {
  TORCH_CHECK(
      !is_capturing(getCurrentNPUStream()), what, " waits for the device (", why,
      "), but the current stream is being captured for a graph: its work is recorded and does not run. Move the call out of ",
      "the capture.");
}

}  // namespace torch_npu
