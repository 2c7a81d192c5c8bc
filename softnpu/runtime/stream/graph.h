// A graph: tasks that a capture (capture.h) recorded, to be queued again as often as wanted.
//
//   graph->execute(stream);     // queues every task anew; later tasks of `stream` start when all of them are over
//
// Each stream of the capture is a lane. A replay puts the first lane on the stream it is given and the others on streams of its
// own, and repeats the order that events gave them; so it runs, fails and is checked for races as the recorded calls would.
// A graph that waits for something outside, such as an external event, takes as many streams as it needs to be queued without
// waiting for room: what it waits for may be the caller's next step.
// Replays of one graph follow each other, on whatever streams. Tasks on their way keep the graph alive: it may be let go at any
// time.
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

// A kind and what it works on. Owns the payload: it is released with this object.
class RecordedTask {
 public:
  RecordedTask(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost);
  ~RecordedTask();
  RecordedTask(const RecordedTask&) = delete;
  RecordedTask& operator=(const RecordedTask&) = delete;

  const SoftnpuTaskKind& kind() const { return *kind_; }
  uint64_t cost() const { return cost_; }
  // May be changed as softnpuAlterCaptured() (alter.h) says, until the capture ends.
  const SoftnpuTaskKind** kind_pointer() { return &kind_; }
  void* payload() { return payload_; }

 private:
  const SoftnpuTaskKind* kind_;
  uint64_t cost_;
  alignas(16) unsigned char payload_[SOFTNPU_TASK_PAYLOAD];
};

// Built by one capture, under that one's lock; thread-safe from then on.
class Graph {
 public:
  struct Release {
    void operator()(Graph* graph) const;
  };
  using Ref = std::unique_ptr<Graph, Release>;

  static Ref create(Device& device) { return Ref(new Graph(device)); }
  Ref share() {
    owners_.fetch_add(1, std::memory_order_relaxed);
    return Ref(this);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Appends a task of lane number `lane`, ordered behind the tasks `after`; returns its number.
  uint32_t add(std::unique_ptr<RecordedTask> task, uint32_t lane, std::vector<uint32_t> after);
  RecordedTask& task(uint32_t number) { return *nodes_[number].task; }
  uint32_t lane_of(uint32_t number) const { return nodes_[number].lane; }
  uint32_t size() const { return uint32_t(nodes_.size()); }

  // Queues the tasks. The graph stays ordered behind its last replay.
  Status execute(Stream& stream);

  // Gives tasks other arguments, for all that is not running yet. ACL_ERROR_RT_MODEL_UPDATE_FAILED, with nothing changed, unless
  // there are as many as `numbers`, of the same kinds in the same order.
  Status update(const std::vector<uint32_t>& numbers, std::vector<std::unique_ptr<RecordedTask>> tasks);

  // One task per line, and as JSON.
  std::string describe() const;
  std::string describe_as_json() const;

 private:
  struct Node {
    std::unique_ptr<RecordedTask> task;  // guarded by lock
    Lock lock;                           // held while the task runs: an update waits for it
    const SoftnpuTaskKind* replay_kind = nullptr;
    uint32_t lane = 0;
    uint32_t place = 0;           // which stream of a replay gets it; 0 for the one that it is given
    std::vector<uint32_t> after;  // of other lanes

    uint64_t cost() {
      const std::lock_guard guard(lock);
      return task->cost();
    }
  };
  struct Replayed;
  using Lane = softnpu::Ref<Stream>;
  class SpareLanes;

  explicit Graph(Device& device) : device_(&device) {}
  ~Graph();
  static const SoftnpuTaskKind& replay_kind(const SoftnpuTaskKind& kind);
  void place_tasks();
  Status prepare_lanes(Stream& target);
  Status queue_tasks(Stream& target);

  Device* const device_;
  std::atomic<int> owners_{1};
  std::deque<Node> nodes_;
  uint32_t lane_count_ = 1;

  std::mutex replay_mutex_;        // one replay is queued after the other; guards the following
  uint32_t place_count_ = 0;       // 0 before the first replay
  std::vector<Lane> extra_lanes_;  // streams of the places from 1 on
  QueueMark last_replay_{};        // its end
};

// What an aclmdlRI stands for.
class GraphSlot : public Slot {
 public:
  void open(Graph::Ref graph);
  void close();
  // Null after close().
  Graph::Ref graph() const;

  std::atomic<bool> is_captured{false};  // it is still being recorded

 private:
  mutable Lock lock_;
  Graph::Ref graph_;  // guarded by lock_
};

using GraphPool = SlotPool<GraphSlot, HandleKind::kGraph>;
GraphPool& graph_pool();

}  // namespace softnpu
