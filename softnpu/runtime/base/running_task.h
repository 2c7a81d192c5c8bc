// The task that the calling thread runs, for signal handlers.
//
//   const RunningTask running(kind);
//   kind.run(payload, message);          // RunningTask::here() is &kind, in a signal handler of this thread too
//
// Costs two stores. Only a host callback can launch a task that runs inside another one. After such a task here() is null for the
// rest of the callback.
#pragma once

#include "runtime/driver.h"

namespace softnpu {

class RunningTask {
 public:
  explicit RunningTask(const SoftnpuTaskKind& kind) { kind_ = &kind; }
  ~RunningTask() { kind_ = nullptr; }
  RunningTask(const RunningTask&) = delete;
  RunningTask& operator=(const RunningTask&) = delete;

  // Null outside tasks, and on threads that a kernel started.
  static const SoftnpuTaskKind* here() { return kind_; }

 private:
  __attribute__((tls_model("initial-exec"))) static inline constinit thread_local const SoftnpuTaskKind* kind_ = nullptr;
};

}  // namespace softnpu
