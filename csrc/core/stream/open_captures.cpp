#include "core/stream/open_captures.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "acl/symbol.h"
#include "core/graph/graph_parts.h"
#include "core/memory/device_cache.h"
#include "core/stream/all_work.h"

namespace torch_npu {

constinit std::atomic<int> detail::captures{0};

namespace {

struct Capture {
  aclmdlRI handle;  // null: the thread that began it has ended, and it with the thread
  NPUStream stream;
  c10::MempoolId_t pool;
  std::thread::id thread;
  NPUGraph* owner;     // null: it was abandoned
  GraphParts parts{};  // of one that was abandoned
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

// The capture is over with any code but that of the wrong thread.
aclError end_on_device(NPUStream stream, aclmdlRI* graph) {
  const BoundDevice bound(stream.device_index());
  return ACL_FN(aclmdlRICaptureEnd)(stream.stream(), graph);
}

void count_end() {
  --detail::allocation_watchers;
  --detail::captures;
}

// Ends a capture of this thread whose graph nobody wants.
void end_unwanted(Capture& capture) {
  aclmdlRI graph = nullptr;
  end_on_device(capture.stream, &graph);
  if (graph != nullptr) ACL_FN(aclmdlRIDestroy)(graph);
  ACL_FN(aclGetRecentErrMsg)();  // nobody's error
  capture.handle = nullptr;
  count_end();
}

// Ends the captures of this thread for which `condition` holds. Abandoned ones are forgotten; the others wait for their owner.
template <typename Condition>
void end_own(const Condition& condition) {
  std::vector<GraphParts> parts;  // let go without the lock
  {
    Registry& known = Registry::instance();
    const std::lock_guard lock(known.mutex);
    for (Capture& capture : known.captures) {
      if (capture.thread != std::this_thread::get_id() || capture.handle == nullptr || !condition(capture)) continue;
      end_unwanted(capture);
      if (capture.owner != nullptr) continue;
      --abandoned;
      parts.push_back(std::move(capture.parts));
    }
    std::erase_if(known.captures, [](const Capture& capture) { return capture.handle == nullptr && capture.owner == nullptr; });
  }
  for (GraphParts& each : parts) let_go(each);
}

struct EndWithThread {
  ~EndWithThread() {
    if (is_in_bad_fork()) return;
    try {
      end_own([](const Capture&) { return true; });
    } catch (const std::exception&) {  // at exit there is no device
    }
  }
};

// What a stream is captured for; null if it is not.
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
      ACL_FN(aclGetRecentErrMsg)();  // the caller says it in other words
      return std::nullopt;
    }
    if (code != ACL_SUCCESS) ended = {nullptr, acl::describe(code, "aclmdlRICaptureEnd")};
    count_end();
  }
  known.captures.erase(capture);
  return ended;
}

void abandon_capture(const NPUGraph& owner, GraphParts parts) {
  Registry& known = Registry::instance();
  {
    const std::lock_guard lock(known.mutex);
    const auto capture = known.find(owner);
    if (capture->handle != nullptr) {
      capture->owner = nullptr;
      capture->parts = std::move(parts);
      ++abandoned;
      return;
    }
    known.captures.erase(capture);
  }
  let_go(parts);
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

bool is_capturing(NPUStream stream) {
  before_wait();
  return captures_exist() && captured_graph(stream) != nullptr;
}

}  // namespace torch_npu
