// SOFTNPU_LAUNCH=shuffle: runs the streams of a program in a random order that depends on a seed.
//
//   shuffle().enter(queue);                                     // when a queue opens; leave() when it closes
//   while (!queue.reached(ticket) && shuffle().step()) {}       // a thread waits: runs one task after another, of any queue
//
// No task runs when it is submitted. Whenever a thread waits, queries the device, or finds a queue full, tasks run on that thread
// one at a time until its call can return. Every queue has a random priority. The queue with the highest priority whose next task
// is ready runs it, and draws a new priority from time to time. So a stream may run far ahead of another one or wait for long,
// which makes a missing wait visible. The random numbers depend on SOFTNPU_SHUFFLE_SEED alone: a program with one thread has the
// same order in every run.
//
// Host callbacks run on the worker thread of their stream. If the program makes no call for about 200 ms, a background thread
// runs its tasks.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/base/options.h"
#include "runtime/stream/task_queue.h"

namespace softnpu {

// Thread-safe.
class Shuffle {
 public:
  explicit Shuffle(uint64_t seed) : random_(seed) {}

  void enter(TaskQueue& queue);
  void leave(TaskQueue& queue);

  // Call it after each submission. Starts the background thread at the first call.
  void task_added();

  // Runs one task on the calling thread; false if none is ready.
  bool step();

 private:
  struct Member {
    TaskQueue* queue;
    uint64_t priority;
  };

  uint64_t draw();
  void insert(const Member& member);
  bool run_one();
  void run_in_background();

  std::mutex mutex_;  // guards the following
  uint64_t random_;
  std::vector<Member> members_;  // the highest priority first

  std::atomic<uint64_t> calls_{
      0};  // number of calls of the client; the background thread runs tasks only while it does not change
  std::atomic<bool> has_background_{false};
};

// Whether SOFTNPU_LAUNCH is shuffle.
inline bool shuffles() { return options().launch == LaunchMode::kShuffle; }
// Made with the seed of the options.
Shuffle& shuffle();

}  // namespace softnpu
