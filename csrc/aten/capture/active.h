// The state of the active capture. The observer of operators (observer.cpp) and the queue (engine.cpp) share it. See engine.h.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <regex>

#include "aten/capture/engine.h"
#include "aten/capture/snapshot.h"

namespace torch_npu::capture {

// Facts about an operator that do not change between its calls.
struct OperatorInfo {
  std::string name;  // without namespace and overload
  std::vector<std::string> arguments;
  std::vector<c10::TypePtr> types;
  std::vector<std::string> results;
  bool chosen = false;
  bool writes = false;          // may write its arguments
  bool is_collective = false;   // another stream may write its results later
  std::vector<size_t> written;  // the arguments that it writes and does not return
};

std::string python_line();

struct ActiveCapture {
  explicit ActiveCapture(Options given) : options(std::move(given)), sequence(options.first_sequence) {
    if (!options.operators.empty()) operators.emplace(options.operators);
    if (!options.modules.empty()) modules.emplace(options.modules);
  }

  bool chooses(const std::string& name) const;
  // Counts a call that could not be recorded, and keeps the first reason.
  void fail(const char* reason);

  const Options options;
  std::optional<std::regex> operators;
  std::optional<std::regex> modules;
  std::atomic<int64_t> sequence;
  std::atomic<int64_t> in_graphs{0};
  std::atomic<int64_t> failed{0};  // calls that could not be recorded
  Statistics statistics;
  at::CallbackHandle handle = 0;

  std::mutex infos_mutex;
  std::map<std::pair<const void*, const void*>, std::unique_ptr<OperatorInfo>> infos;

  std::mutex modules_mutex;
  std::map<std::pair<uint64_t, int64_t>, std::string> module_of_node;  // key: forward thread and sequence number of the node

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<Entry>> queue;
  size_t queued = 0;       // bytes of the entries in the queue and of the entry that was taken last
  size_t taken = 0;        // bytes of the entry that was taken last
  bool closed = false;     // new entries are dropped
  bool stopped = false;    // closed, and all statistics have been flushed
  bool abandoned = false;  // the writer has stopped: no thread calls next() again
  std::string failure;     // why the first call that failed could not be recorded
};

// Null while no capture is active. Thread-safe.
std::shared_ptr<ActiveCapture> current_capture();

struct CaptureThread {
  bool busy = false;  // the engine itself calls operators now
  int depth = 0;      // number of running operators and nodes
  std::string module;
  std::unique_ptr<Entry> node;  // a node that has run; its hook adds the results next
  std::shared_ptr<ActiveCapture> node_capture;
};
CaptureThread& this_thread();

// Marks the engine's own operators.
class OwnCalls {
 public:
  OwnCalls() : outer_(this_thread().busy) { this_thread().busy = true; }
  ~OwnCalls() { this_thread().busy = outer_; }
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;

 private:
  const bool outer_;
  PlainCalls plain_;
};

// Waits until `bytes` more fit into the queue, or until it is empty.
void wait_for_room(ActiveCapture& capture, size_t bytes);
// Appends the entry. Waits while the queue is full.
void enqueue(ActiveCapture& capture, std::unique_ptr<Entry> entry);
// Enqueues the node of this thread if its hook was not called.
void flush_node(CaptureThread& thread);
// The callbacks for operators and nodes.
at::RecordFunctionCallback observer();

}  // namespace torch_npu::capture
