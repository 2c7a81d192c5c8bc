// The open captures of this process: captures that have begun and not ended.
//
//   begin_capture(graph, stream, pool, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
//   ...                                                     // is_capturing(stream) is true
//   const std::optional<EndedCapture> ended = end_capture(graph);
//
// Unless its mode is relaxed, the device ends a capture only on the thread that began it. When another thread destroys the graph,
// the capture is abandoned: the thread that began it ends it when it next waits for the device, allocates for a captured stream,
// begins a capture, or ends. A capture ends with its thread.
//
// Thread-safe.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/macros/Export.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "acl/acl_mdl.h"
#include "core/stream/stream.h"

namespace torch_npu {

class NPUGraph;

namespace detail {

C10_EXPORT extern constinit std::atomic<int> captures;
C10_EXPORT extern constinit std::atomic<uint64_t> replays;

}  // namespace detail

// Whether any stream is captured for a graph. One load.
inline bool captures_exist() { return detail::captures.load(std::memory_order_relaxed) != 0; }

// The number of replays that this process has queued. A replay writes tensors and calls no operator.
inline uint64_t replayed_graphs() { return detail::replays.load(std::memory_order_relaxed); }

// Captures `stream` for `owner`, whose memory comes from `pool`. Throws if the device refuses.
void begin_capture(NPUGraph& owner, NPUStream stream, c10::MempoolId_t pool, aclmdlRICaptureMode mode);

struct EndedCapture {
  aclmdlRI graph = nullptr;  // null if the capture failed
  std::string failure{};     // the reason, if the capture failed
};
// Nothing if the device refuses to end the capture on this thread; the capture then goes on.
std::optional<EndedCapture> end_capture(const NPUGraph& owner);
// For an owner that is destroyed after end_capture() returned nothing. `after_end` is called when the capture has ended, on the
// thread that ends it; at once if it has ended already.
void abandon_capture(const NPUGraph& owner, std::function<void()> after_end);

// Ends the abandoned captures that this thread began.
C10_EXPORT void end_abandoned_captures();
// Called before the device is waited for or queried: a stream of an abandoned capture would refuse it.
inline void before_wait() {
  if (captures_exist()) [[unlikely]]
    end_abandoned_captures();
}

// The graph that a stream is captured for, and the pool of its memory.
struct CapturedFor {
  NPUGraph* graph;  // null if the capture was abandoned
  c10::MempoolId_t pool;
};
// Nothing if the stream is not captured, or was not captured by begin_capture().
std::optional<CapturedFor> capture_of(NPUStream stream);
// The pool that memory for the stream comes from while it takes part in a capture.
std::optional<c10::MempoolId_t> capture_pool(NPUStream stream);
// Whether the stream takes part in a capture.
C10_EXPORT bool is_capturing(NPUStream stream);
// Throws if the current stream is captured. `what` is the call that waits, `why` its reason.
C10_EXPORT void refuse_wait_in_capture(const char* what, const char* why);

}  // namespace torch_npu
