// A child process that runs cases, so that a case may crash or hang.
//
//   Worker worker(state);
//   worker.start([&] { ...; _exit(0); });
//   End end;
//   while (!worker.ended(patience, end)) poll(nullptr, 0, 5);
//
// One thread uses a Worker.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "ops/fuzz/case.h"
#include "ops/fuzz/run.h"

namespace softnpu::fuzz {

inline constexpr int kBefore = 8;

// What a worker runs. Lies in memory that it shares with its parent, which reads it when the worker has ended.
struct WorkerState {
  std::atomic<int64_t> started;  // number of cases that have begun
  std::atomic<int> function;     // -1: between two cases
  int64_t round;
  int64_t next_round;    // the next round of a new worker
  size_t next_function;  // position in Options::functions
  int before[kBefore];   // functions of the last cases of this process, newest last; -1 for none
  Case one;
  Outcome outcome;
};

// How a worker ended.
struct End {
  enum class Kind { kDone, kCrash, kHang, kOutside, kError } kind = Kind::kDone;
  std::string text;  // what happened, on one line
};

// "crash: Segmentation fault; ...", or the outcome of the case if the worker ended well.
std::string text_of(const End& end, const Outcome& outcome);

class Worker {
 public:
  explicit Worker(WorkerState& state) : state_(state) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Calls `body` in a new process. It must not return.
  void start(const std::function<void()>& body);

  bool runs() const { return pid_ > 0; }

  // Whether the process has ended. One that has begun no case for `patience` seconds is killed, and counts as ended.
  bool ended(double patience, End& end);

  WorkerState& state() { return state_; }

 private:
  std::string explanation() const;
  End end_of(int status) const;

  WorkerState& state_;
  pid_t pid_ = -1;
  int output_ = -1;  // file that takes stdout and stderr of the process
  int64_t seen_ = 0;
  double seen_at_ = 0;
};

}  // namespace softnpu::fuzz
