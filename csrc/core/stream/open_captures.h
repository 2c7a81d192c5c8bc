// The captures of this process that are not over.
//
// A device ends a capture on the thread that began it alone, unless the mode is relaxed. So a capture whose graph another thread
// lets go of is abandoned: the thread that began it ends it when it next waits for the device, allocates for a captured stream,
// begins a capture, or ends. A thread that ends takes its captures with it.
//
// Thread-safe.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/macros/Export.h>

#include <atomic>
#include <optional>
#include <string>

#include "acl/acl_mdl.h"
#include "core/stream/stream.h"

namespace torch_npu {

class NPUGraph;
struct GraphParts;

namespace detail {

C10_EXPORT extern constinit std::atomic<int> captures;

}  // namespace detail

// Whether any stream is captured for a graph. One load.
inline bool captures_exist() { return detail::captures.load(std::memory_order_relaxed) != 0; }

// Captures `stream` for `owner`, whose memory comes from `pool`. Throws if the device refuses.
void begin_capture(NPUGraph& owner, NPUStream stream, c10::MempoolId_t pool, aclmdlRICaptureMode mode);

struct EndedCapture {
  aclmdlRI graph = nullptr;  // null if the capture failed
  std::string failure{};     // why
};
// Nothing if the device refuses to end it on this thread: it goes on then.
std::optional<EndedCapture> end_capture(const NPUGraph& owner);
// For an owner that goes although that happened. `parts` are let go when the capture ends.
void abandon_capture(const NPUGraph& owner, GraphParts parts);

// Ends those that this thread began and that were abandoned.
C10_EXPORT void end_abandoned_captures();
// Before the device is waited for or asked: a stream that is captured for nobody must not refuse it.
inline void before_wait() {
  if (captures_exist()) [[unlikely]]
    end_abandoned_captures();
}

// What a stream is captured for.
struct CapturedFor {
  NPUGraph* graph;  // null if it was abandoned
  c10::MempoolId_t pool;
};
// Nothing if it is not captured, or not by begin_capture().
std::optional<CapturedFor> capture_of(NPUStream stream);
// Whether the stream takes part in a capture.
C10_EXPORT bool is_capturing(NPUStream stream);

}  // namespace torch_npu
