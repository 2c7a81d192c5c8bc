// Graphs: device work that is captured once and replayed as often as wanted.
//
//   NPUGraph graph;
//   graph.capture_begin({}, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);   // of the current stream, which is not the default one
//   ...                                                          // operators are recorded and do not run
//   graph.capture_end();
//   graph.replay();                                              // on the current stream
//
// Memory that captured streams ask for, on any thread, comes from the graph's pool. It goes back there when freed, to captures
// that use the same pool, so that replays find it; the pool lives as long as a graph that uses it. Random operators draw anew
// with each replay, from the state that their generator has then, and move it on as their calls would.
//
// Whatever waits for captured work throws. A capture that was spoiled, or whose streams did not come back to the first one, fails
// in capture_end() and leaves an empty graph. Not thread-safe; different graphs are independent.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>

#include <deque>
#include <optional>
#include <string>

#include "acl/acl_mdl.h"
#include "core/graph/graph_parts.h"
#include "core/stream/event.h"
#include "core/stream/open_captures.h"

namespace torch_npu {

// The pool that memory for the stream comes from, if it takes part in the capture of a graph. Binds nothing.
std::optional<c10::MempoolId_t> capture_pool(NPUStream stream);
// Throws, naming `what` and why it waits, if the current stream is captured.
C10_EXPORT void refuse_wait_in_capture(const char* what, const char* why);

class C10_EXPORT NPUGraph {
 public:
  NPUGraph() = default;
  // As reset(). Where that fails the graph is kept until its work is done (graph_parts.h), and the failure reaches the program
  // later (late_errors.h). A capture of another thread is left to that thread (open_captures.h).
  ~NPUGraph();
  NPUGraph(const NPUGraph&) = delete;
  NPUGraph& operator=(const NPUGraph&) = delete;

  // `pool` as of another graph or of new_pool_id(); none for one of its own.
  void capture_begin(std::optional<c10::MempoolId_t> pool, aclmdlRICaptureMode mode);
  void capture_end();
  void replay();
  // Forgets the graph after its last replay, and gives its memory back after all work. Throws if that work fails or the wait does
  // not end; the graph is as before then, except that its capture has ended. Throws if another thread captures it.
  void reset();
  c10::MempoolId_t pool() const;
  // Writes the tasks as JSON.
  void debug_dump(const std::string& path) const;
  // Its numbers will be drawn from; happens by itself when they are.
  void register_generator(const at::Generator& generator);

  // Where one captured call finds seed and offset.
  struct Draw {
    uint64_t seed;
    uint64_t offset;  // is added to that of `state`
    const void* state;
  };
  // Of `generator`, for `count` numbers per element; only by calls of this graph's capture.
  Draw draw(const at::Generator& generator, uint64_t count);
  // What calls of this graph's capture take for the generator's offset, and move: how far they have drawn.
  uint64_t& drawn(const at::Generator& generator) { return random_of(generator).drawn; }
  // The graph whose capture `stream` takes part in; null for none.
  static NPUGraph* capturing(NPUStream stream);

 private:
  struct Random {
    at::Generator generator;
    uint64_t drawn = 0;  // by all calls of one replay
  };

  void check_captured() const;
  bool drop_capture();
  void discard() noexcept;
  void wait_for_readers() const;
  Random& random_of(const at::Generator& generator);
  void* state_of(const Random& random) const;
  void write_states(NPUStream stream);

  GraphParts parts_;
  std::optional<NPUStream> captured_;  // while it is being captured
  std::deque<Random> randoms_;         // of states in parts_, in their order
};

}  // namespace torch_npu
