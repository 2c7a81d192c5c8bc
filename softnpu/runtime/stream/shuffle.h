// SOFTNPU_LAUNCH=shuffle: as many orders of a program's streams as there are seeds.
//
//   shuffle().enter(queue);                                     // when a queue opens; leave() when it closes
//   while (!queue.reached(ticket) && shuffle().step()) {}       // somebody waits: one task after another, of any queue
//
// Nothing runs when it is submitted. Whenever a thread waits, asks whether something is done, or finds a queue full, tasks run on
// that thread one at a time, until it has what it wanted. Every queue has a random priority; the highest whose next task is ready
// goes first, and now and then it draws a new one. So a stream may run far ahead of another or starve for long, which is what
// makes a missing wait show. The draws come from SOFTNPU_SHUFFLE_SEED alone: a program with one thread runs its tasks in the same
// order every time.
//
// Host callbacks run on their stream's own thread, as ever. A program that does not wait at all gets its tasks run in the
// background after a pause of some 200 ms without a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/stream/task_queue.h"

namespace softnpu {

// Thread-safe.
class Shuffle {
 public:
  explicit Shuffle(uint64_t seed) : random_(seed) {}

  void enter(TaskQueue& queue);
  void leave(TaskQueue& queue);

  // Something was submitted; it will run, even if nobody waits.
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

  std::atomic<uint64_t> calls_{0};  // of clients: as long as they come, the background keeps out
  std::atomic<bool> has_background_{false};
};

// With the seed of the options.
Shuffle& shuffle();

}  // namespace softnpu
