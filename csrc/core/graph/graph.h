// Graphs: device work that is captured once and replayed many times.
//
//   NPUGraph graph;
//   graph.capture_begin({}, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);   // of the current stream, which must not be the default one
//   ...                                                          // operators are recorded and do not run
//   graph.capture_end();
//   graph.replay();                                              // on the current stream
//
// Memory for captured streams comes from the graph's pool, whichever thread allocates. Freed memory goes back to that pool, and
// only captures with the same pool reuse it, because replays use it again. The pool exists as long as a graph uses it. Each
// replay draws new random numbers: it starts at the present state of the generator and advances it as the captured calls would.
//
// A wait for captured work throws. A capture that was invalidated, or whose streams were not joined to the first one, fails in
// capture_end() and leaves an empty graph. Not thread-safe; different graphs are independent.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "acl/acl_mdl.h"
#include "core/graph/graph_resources.h"
#include "core/stream/event.h"
#include "core/stream/open_captures.h"

namespace torch_npu {

class C10_EXPORT NPUGraph {
 public:
  NPUGraph() = default;
  // As reset(). If that fails, the graph is kept until its work is done (graph_resources.h), and the failure is thrown later
  // (late_errors.h). A capture that another thread began is ended by that thread (open_captures.h).
  ~NPUGraph();
  NPUGraph(const NPUGraph&) = delete;
  NPUGraph& operator=(const NPUGraph&) = delete;

  // `pool` is the pool of another graph or from new_pool_id(). Without it the graph gets a new pool.
  void capture_begin(std::optional<c10::MempoolId_t> pool, aclmdlRICaptureMode mode);
  void capture_end();
  void replay();
  // Destroys the graph after its last replay and gives its memory back after all work. Throws if that work fails or the wait is
  // not finished; the graph then stays, but its capture has ended. Throws if another thread captures it.
  void reset();
  c10::MempoolId_t pool() const;
  // Writes the tasks as JSON.
  void debug_dump(const std::string& path) const;
  // Optional: a captured call that draws from a generator registers it.
  void register_generator(const at::Generator& generator);

  // The random state for one captured call.
  struct Draw {
    uint64_t seed;
    uint64_t offset;    // added to the offset in `state`
    const void* state;  // on the device: seed and offset, which each replay writes
  };
  // For `count` numbers per element of `generator`. Called only during this graph's capture.
  Draw draw(const at::Generator& generator, uint64_t count);
  // The count of numbers that the captured calls have drawn. They use and advance it in place of the generator's offset.
  uint64_t& drawn(const at::Generator& generator) { return random_of(generator).drawn; }
  // Puts replays into an order with other work: a replay calls `order` with its stream and a function that launches it. Called
  // during the capture; for an `owner` that has an order, nothing changes.
  using ReplayOrder = std::function<void(NPUStream stream, const std::function<void()>& launch)>;
  void order_replays(const void* owner, ReplayOrder order) { orders_.try_emplace(owner, std::move(order)); }
  // The graph whose capture `stream` takes part in; null if there is none.
  static NPUGraph* capturing(NPUStream stream);

 private:
  struct Random {
    at::Generator generator;
    uint64_t drawn = 0;  // numbers that one replay draws
  };

  void check_captured() const;
  bool drop_capture();
  void discard() noexcept;
  void wait_for_readers() const;
  Random& random_of(const at::Generator& generator);
  void* state_of(const Random& random) const;
  void write_states(NPUStream stream);
  void launch_in_order(std::map<const void*, ReplayOrder>::const_iterator next, NPUStream stream);

  GraphResources resources_;
  std::optional<NPUStream> captured_;  // the first stream, during the capture
  std::deque<Random> randoms_;         // in the order of resources_.states
  std::map<const void*, ReplayOrder> orders_;
};

}  // namespace torch_npu
