// A graph: tasks that a capture (capture.h) recorded. They can be submitted any number of times.
//
//   graph->execute(stream);     // submits every task; later tasks of `stream` start when all of them are done
//
// Each stream of the capture is a lane of the graph. A replay submits the first lane to the given stream and the others to
// additional streams, with the same waits between them. So it runs, fails and is checked for races as the recorded calls would.
// A graph that waits for something outside, such as an external event, uses enough streams to submit all tasks without waiting
// for free places in a queue: the caller may cause the awaited event only after execute() returns. Replays of one graph run one
// after another, even on different streams. Submitted tasks hold a reference to the graph, so the owner may drop it at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/handle.h"
#include "runtime/stream/stream.h"

namespace softnpu {

// A task: its kind and its payload. The destructor releases the payload.
class RecordedTask {
 public:
  RecordedTask(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  ~RecordedTask();
  RecordedTask(const RecordedTask&) = delete;
  RecordedTask& operator=(const RecordedTask&) = delete;

  const SoftnpuTaskKind& kind() const { return *kind_; }
  uint64_t cost() const { return cost_; }
  // SoftnpuDriver::alter_captured may change both until the capture ends.
  const SoftnpuTaskKind** kind_pointer() { return &kind_; }
  void* payload() { return payload_; }

 private:
  const SoftnpuTaskKind* kind_;
  uint64_t cost_;
  alignas(16) unsigned char payload_[SOFTNPU_TASK_PAYLOAD];
};

// Built by one capture, with the lock of Captures held; thread-safe afterwards.
class Graph {
 public:
  struct Release {
    void operator()(Graph* graph) const;
  };
  using Ref = std::unique_ptr<Graph, Release>;

  static Ref create(StreamDevice& device) { return Ref(new Graph(device)); }
  Ref share() {
    owners_.fetch_add(1, std::memory_order_relaxed);
    return Ref(this);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Appends a task of lane number `lane` that runs after the tasks `after`. Returns its number.
  uint32_t add(std::unique_ptr<RecordedTask> task, uint32_t lane, std::vector<uint32_t> after);
  RecordedTask& task(uint32_t number) { return *nodes_[number].task; }
  uint32_t lane_of(uint32_t number) const { return nodes_[number].lane; }
  uint32_t size() const { return uint32_t(nodes_.size()); }

  // Submits the tasks, after the previous replay.
  Status execute(Stream& stream);

  // Replaces the arguments of the tasks `numbers`, also in submitted replays whose task has not started. `tasks` must have the
  // same number of tasks, of the same kinds in the same order; otherwise ACL_ERROR_RT_MODEL_UPDATE_FAILED, and nothing changes.
  Status update(const std::vector<uint32_t>& numbers, std::vector<std::unique_ptr<RecordedTask>> tasks);

  // The tasks, one per line or as JSON.
  std::string describe() const;
  std::string describe_as_json(bool with_tensors);

 private:
  struct Node {
    std::unique_ptr<RecordedTask> task;  // guarded by lock
    Lock lock;                           // held while the task runs, so that an update waits for it
    const SoftnpuTaskKind* replay_kind = nullptr;
    uint32_t lane = 0;
    uint32_t place = 0;           // the stream of a replay: 0 for the given one, n for extra_lanes_[n - 1]
    std::vector<uint32_t> after;  // numbers of tasks of other lanes

    uint64_t cost() {
      const std::lock_guard guard(lock);
      return task->cost();
    }
  };
  struct Replayed;
  using Lane = softnpu::Ref<Stream>;
  class SpareLanes;

  explicit Graph(StreamDevice& device);
  ~Graph();
  static const SoftnpuTaskKind& replay_kind(const SoftnpuTaskKind& kind);
  static std::string tensors_as_json(Node& node);
  void place_tasks();
  Status prepare_lanes(Stream& target);
  Status queue_tasks(Stream& target);

  StreamDevice* const device_;
  const uint64_t number_;  // from 1, unique in the process
  std::atomic<int> owners_{1};
  std::deque<Node> nodes_;
  uint32_t lane_count_ = 1;

  std::mutex replay_mutex_;        // held while a replay is submitted; guards the following
  uint32_t place_count_ = 0;       // 0 before the first replay
  std::vector<Lane> extra_lanes_;  // streams of the places 1 and up
  QueueMark last_replay_{};        // the end of the last replay
  uint64_t replay_count_ = 0;
};

// The object behind the handle aclmdlRI.
class GraphSlot : public Slot {
 public:
  void open(Graph::Ref graph);
  void close();
  // Null after close().
  Graph::Ref graph() const;

  std::atomic<bool> is_captured{false};  // whether the capture has not ended yet

 private:
  mutable Lock lock_;
  Graph::Ref graph_;  // guarded by lock_
};

using GraphPool = SlotPool<GraphSlot, HandleKind::kGraph>;
GraphPool& graph_pool();

}  // namespace softnpu
