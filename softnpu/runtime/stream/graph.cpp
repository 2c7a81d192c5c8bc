#include "runtime/stream/graph.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "runtime/checks/races.h"
#include "runtime/dump/tensors.h"
#include "runtime/stream/context.h"
#include "runtime/stream/submit_with_faults.h"

namespace softnpu {

RecordedTask::RecordedTask(const SoftnpuTaskKind& kind, const void* payload, size_t bytes, uint64_t cost)
    : kind_(&kind), cost_(cost) {
  std::memcpy(payload_, payload, bytes);
}

RecordedTask::~RecordedTask() {
  if (kind_->release != nullptr) kind_->release(payload_);
}

namespace {

void forget_failure(const Ref<Stream>& lane) { static_cast<void>(lane->take_failure(lane->queue().submitted())); }

}  // namespace

// The payload of a submitted task of a graph.
struct Graph::Replayed {
  Graph* graph;  // holds a reference
  Node* node;

  static Node& node_of(const void* payload) { return *static_cast<const Replayed*>(payload)->node; }

  static aclError run(void* payload, char* message) {
    Node& node = node_of(payload);
    const std::lock_guard guard(node.lock);
    return node.task->kind().run(node.task->payload(), message);
  }
  static void release(void* payload) { Graph::Release()(static_cast<Replayed*>(payload)->graph); }
  static bool ready(const void* payload) {
    Node& node = node_of(payload);
    const std::lock_guard guard(node.lock);
    return node.task->kind().ready(node.task->payload());
  }
  static void visit(const void* payload, SoftnpuAccessVisitor visitor, void* context) {
    Node& node = node_of(payload);
    const std::lock_guard guard(node.lock);
    node.task->kind().visit(node.task->payload(), visitor, context);
  }
  static void describe(const void* payload, SoftnpuTensorVisitor visitor, void* context) {
    const SoftnpuOperatorDescriber describe = operator_describer();
    Node& node = node_of(payload);
    const std::lock_guard guard(node.lock);
    if (describe != nullptr) describe(node.task->payload(), visitor, context);
  }
};

// Streams that graphs used for their lanes and that the next graph reuses. They are not closed when a graph is destroyed, because
// that takes locks which the caller may hold.
class Graph::SpareLanes {
 public:
  static SpareLanes& instance() {
    static auto* const lanes = new SpareLanes;
    return *lanes;
  }

  Result<Lane> take(Context& context) {
    {
      const std::lock_guard guard(mutex_);
      std::erase_if(lanes_, [](const Lane& lane) { return !lane.is_live(); });
      for (Lane& lane : lanes_) {
        if (&lane->context() != &context) continue;
        const Lane found = lane;
        lane = lanes_.back();
        lanes_.pop_back();
        return found;
      }
    }
    Result<Lane> made = context.create_stream(kHighestPriority);
    if (made.ok()) made.value()->is_lane.store(true, std::memory_order_relaxed);
    return made;
  }

  void give(const Lane& lane) {
    const std::lock_guard guard(mutex_);
    lanes_.push_back(lane);
  }

 private:
  std::mutex mutex_;
  std::vector<Lane> lanes_;  // guarded by mutex_
};

Graph::Graph(StreamDevice& device)
    : device_(&device), number_([] {
        static constinit std::atomic<uint64_t> graphs{0};
        return graphs.fetch_add(1, std::memory_order_relaxed) + 1;
      }()) {}

void Graph::Release::operator()(Graph* graph) const {
  if (graph->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete graph;
}

Graph::~Graph() {
  for (const Lane& lane : extra_lanes_) SpareLanes::instance().give(lane);
}

// Kinds are never freed: reports of failures and faults may read the name after the task has ended.
const SoftnpuTaskKind& Graph::replay_kind(const SoftnpuTaskKind& kind) {
  using Key = std::tuple<std::string, uint32_t, bool, bool>;
  static auto* const kinds = new std::map<Key, SoftnpuTaskKind>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard guard(*mutex);
  const auto [entry, is_new] = kinds->try_emplace({kind.name, kind.flags, kind.ready != nullptr, kind.visit != nullptr});
  if (is_new) {
    entry->second = {.name = std::get<0>(entry->first).c_str(),
                     .run = Replayed::run,
                     .release = Replayed::release,
                     .ready = kind.ready != nullptr ? Replayed::ready : nullptr,
                     .flags = kind.flags,
                     .visit = kind.visit != nullptr ? Replayed::visit : nullptr};
  }
  return entry->second;
}

uint32_t Graph::add(std::unique_ptr<RecordedTask> task, uint32_t lane, std::vector<uint32_t> after) {
  Node& node = nodes_.emplace_back();
  node.replay_kind = &replay_kind(task->kind());
  node.task = std::move(task);
  node.lane = lane;
  node.after = std::move(after);
  lane_count_ = std::max(lane_count_, lane + 1);
  return size() - 1;
}

void Graph::place_tasks() {
  constexpr uint64_t kRoom = TaskQueue::kCapacity / 2;
  struct Last {
    uint32_t place;
    uint64_t tasks = 0;
  };
  const bool may_be_held = std::ranges::any_of(nodes_, [](const Node& node) { return node.replay_kind->ready != nullptr; });
  std::vector<Last> lanes;
  for (place_count_ = 0; place_count_ < lane_count_; ++place_count_) lanes.push_back({place_count_});
  for (Node& node : nodes_) {
    Last& last = lanes[node.lane];
    last.tasks += 1 + node.after.size();
    if (may_be_held && last.tasks > kRoom) last = {place_count_++, 2 + node.after.size()};
    node.place = last.place;
  }
}

Status Graph::prepare_lanes(Stream& target) {
  // If the last replay is done, its end has passed on the failures of its lanes.
  const bool is_idle = last_replay_.queue == nullptr || last_replay_.queue->reached(last_replay_.ticket);
  extra_lanes_.reserve(place_count_ - 1);
  for (size_t i = 0; i + 1 < place_count_; ++i) {
    const bool exists = i < extra_lanes_.size();
    if (exists && extra_lanes_[i].is_live() && &extra_lanes_[i]->context() == &target.context()) {
      if (is_idle) forget_failure(extra_lanes_[i]);
      continue;
    }
    Result<Lane> lane = SpareLanes::instance().take(target.context());
    if (!lane.ok()) return lane.take_status();
    forget_failure(lane.value());
    if (!exists) {
      extra_lanes_.push_back(lane.value());
      continue;
    }
    SpareLanes::instance().give(std::exchange(extra_lanes_[i], lane.value()));
  }
  return {};
}

Status Graph::queue_tasks(Stream& target) {
  std::vector<QueueMark> marks;
  marks.reserve(nodes_.size());
  std::vector<QueueMark> newest(lane_count_);
  for (Node& node : nodes_) {
    Stream& stream = node.place == 0 ? target : *extra_lanes_[node.place - 1];
    SOFTNPU_RETURN_IF_ERROR(stream.wait_for(newest[node.lane]));
    for (const uint32_t number : node.after) SOFTNPU_RETURN_IF_ERROR(stream.wait_for(marks[number]));
    Ref reference = share();
    const Replayed payload{this, &node};
    QueueMark mark{&stream.queue(), 0};
    SOFTNPU_RETURN_IF_ERROR(submit_with_faults(FaultPoint::kLaunch, stream, *node.replay_kind, &payload, sizeof payload,
                                               node.cost(), &mark.ticket, {Replayed::describe, number_, replay_count_}));
    static_cast<void>(reference.release());
    marks.push_back(mark);
    newest[node.lane] = marks.back();
  }
  return {};
}

Status Graph::execute(Stream& target) {
  if (&target.device() != device_) {
    return {ACL_ERROR_RT_PARAM_INVALID,
            text("the graph was captured on device ", device_->number(), " and cannot run on device ", target.device().number())};
  }
  const std::lock_guard guard(replay_mutex_);
  if (place_count_ == 0) place_tasks();
  SOFTNPU_RETURN_IF_ERROR(prepare_lanes(target));
  SOFTNPU_RETURN_IF_ERROR(target.wait_for(last_replay_));
  const QueueMark begin{&target.queue(), target.queue().submitted()};
  for (const Lane& lane : extra_lanes_) SOFTNPU_RETURN_IF_ERROR(lane->wait_for(begin));
  Status status = queue_tasks(target);
  ++replay_count_;
  for (const Lane& lane : extra_lanes_) {
    Status joined = target.wait_for({&lane->queue(), lane->queue().submitted()});
    if (status.ok()) status = std::move(joined);
  }
  last_replay_ = {&target.queue(), target.queue().submitted()};
  return status;
}

Status Graph::update(const std::vector<uint32_t>& numbers, std::vector<std::unique_ptr<RecordedTask>> tasks) {
  if (tasks.size() != numbers.size()) {
    return {ACL_ERROR_RT_MODEL_UPDATE_FAILED, text("the group has ", numbers.size(), " tasks, but the update has ", tasks.size(),
                                                   "; call the same operators with the same shapes")};
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    const SoftnpuTaskKind* const known = nodes_[numbers[i]].replay_kind;
    if (known == &replay_kind(tasks[i]->kind())) continue;
    return {ACL_ERROR_RT_MODEL_UPDATE_FAILED, text("task ", i, " of the group is '", known->name, "', but the update has '",
                                                   tasks[i]->kind().name, "'; call the same operators in the same order")};
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    Node& node = nodes_[numbers[i]];
    const std::lock_guard guard(node.lock);
    std::swap(node.task, tasks[i]);
  }
  return {};
}

std::string Graph::describe() const {
  std::string lines;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    lines += text(i, " stream ", nodes_[i].lane, " ", nodes_[i].replay_kind->name);
    for (const uint32_t number : nodes_[i].after) lines += text(number == nodes_[i].after.front() ? " after " : ", ", number);
    lines += "\n";
  }
  return lines;
}

std::string Graph::tensors_as_json(Node& node) {
  const SoftnpuOperatorDescriber describe = operator_describer();
  if (describe == nullptr || !(node.replay_kind->flags & SOFTNPU_TASK_OPERATOR)) return "[]";
  std::string tensors;
  const std::lock_guard guard(node.lock);
  for_each_tensor(describe, node.task->payload(), [&](const SoftnpuOperatorTensor& tensor) {
    const bool is_read = tensor.flags & SOFTNPU_TENSOR_READ;
    const char* const role = !(tensor.flags & SOFTNPU_TENSOR_WRITTEN) ? "input" : is_read ? "input and output" : "output";
    const auto numbers = [&](const int64_t* values) {
      std::string list;
      for (int32_t i = 0; i < tensor.ndim; ++i) list += text(i == 0 ? "" : ", ", values[i]);
      return list;
    };
    tensors += text(tensors.empty() ? "" : ", ", "{\"role\": \"", role, "\", \"dtype\": \"", dtype_name(tensor.dtype),
                    "\", \"format\": ", tensor.format, ", \"shape\": [", numbers(tensor.sizes), "], \"strides\": [",
                    numbers(tensor.strides), "]}");
  });
  return text("[", tensors, "]");
}

std::string Graph::describe_as_json(bool with_tensors) {
  std::string tasks;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    std::string after;
    for (const uint32_t number : nodes_[i].after) after += text(after.empty() ? "" : ", ", number);
    tasks += text(i == 0 ? "\n" : ",\n", "    {\"id\": ", i, ", \"name\": \"", nodes_[i].replay_kind->name,
                  "\", \"stream\": ", nodes_[i].lane, ", \"after\": [", after, "]",
                  with_tensors ? text(", \"tensors\": ", tensors_as_json(nodes_[i])) : std::string(), "}");
  }
  return text("{\n  \"device\": ", device_->number(), ",\n  \"streams\": ", lane_count_, ",\n  \"tasks\": [", tasks,
              "\n  ]\n}\n");
}

void GraphSlot::open(Graph::Ref graph) {
  const std::lock_guard guard(lock_);
  graph_ = std::move(graph);
  is_captured.store(true, std::memory_order_relaxed);
}

void GraphSlot::close() {
  Graph::Ref graph;
  const std::lock_guard guard(lock_);
  std::swap(graph, graph_);
}

Graph::Ref GraphSlot::graph() const {
  const std::lock_guard guard(lock_);
  return graph_ == nullptr ? nullptr : graph_->share();
}

GraphPool& graph_pool() {
  static auto* pool = new GraphPool;
  return *pool;
}

}  // namespace softnpu
