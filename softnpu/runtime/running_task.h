// Which task the calling thread runs, kept where a signal handler can find it.
//
//   const RunningTask running(kind);
//   kind.run(payload, message);          // RunningTask::here() is &kind, in a signal handler of this thread too
//
// Costs three moves. Tasks nest: a host callback may launch a task that runs at once.
#pragma once

#include <utility>

#include "runtime/driver.h"

namespace softnpu {

class RunningTask {
 public:
  explicit RunningTask(const SoftnpuTaskKind& kind) : outer_(std::exchange(innermost_, &kind)) {}
  ~RunningTask() { innermost_ = outer_; }
  RunningTask(const RunningTask&) = delete;
  RunningTask& operator=(const RunningTask&) = delete;

  // Null outside of tasks, and on threads that a kernel started.
  static const SoftnpuTaskKind* here() { return innermost_; }

 private:
  __attribute__((tls_model("initial-exec"))) static inline constinit thread_local const SoftnpuTaskKind* innermost_ = nullptr;

  const SoftnpuTaskKind* const outer_;
};

}  // namespace softnpu
