#include "runtime/stream/shuffle.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "runtime/base/log.h"

namespace softnpu {
namespace {

constexpr auto kGlance = std::chrono::milliseconds(50);
constexpr int kQuietGlances = 4;
constexpr uint64_t kStepsPerDraw = 8;  // average number of tasks before a queue draws a new priority

}  // namespace

// splitmix64: every seed, including 0, has its own sequence.
uint64_t Shuffle::draw() {
  random_ += 0x9e3779b97f4a7c15u;
  uint64_t mixed = random_;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return mixed ^ mixed >> 31;
}

void Shuffle::enter(TaskQueue& queue) {
  std::lock_guard guard(mutex_);
  insert({&queue, draw()});
}

void Shuffle::insert(const Member& member) {
  const auto is_lower = [&](const Member& other) { return other.priority < member.priority; };
  members_.insert(std::find_if(members_.begin(), members_.end(), is_lower), member);
}

void Shuffle::leave(TaskQueue& queue) {
  std::lock_guard guard(mutex_);
  std::erase_if(members_, [&](const Member& member) { return member.queue == &queue; });
}

bool Shuffle::step() {
  calls_.fetch_add(1, std::memory_order_relaxed);
  return run_one();
}

bool Shuffle::run_one() {
  TaskQueue* queue = nullptr;
  {
    std::lock_guard guard(mutex_);
    const auto next =
        std::find_if(members_.begin(), members_.end(), [](const Member& member) { return member.queue->begin_step(); });
    if (next == members_.end()) return false;
    queue = next->queue;
    if (draw() % kStepsPerDraw == 0) {
      members_.erase(next);
      insert({queue, draw()});
    }
  }
  queue->finish_step();
  return true;
}

void Shuffle::task_added() {
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (has_background_.load(std::memory_order_relaxed) || has_background_.exchange(true)) return;
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);  // only threads of the client handle signals
  try {
    std::thread([this] { run_in_background(); }).detach();
  } catch (const std::system_error& error) {
    SOFTNPU_LOG(kWarning, "tasks run only while the program waits: no thread can be started (", error.what(), ")");
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

void Shuffle::run_in_background() {
  uint64_t seen = 0;
  int quiet = 0;
  while (!TaskQueue::is_exiting()) {
    std::this_thread::sleep_for(kGlance);
    const uint64_t now = calls_.load(std::memory_order_relaxed);
    quiet = now == std::exchange(seen, now) ? quiet + 1 : 0;
    if (quiet < kQuietGlances) continue;
    while (calls_.load(std::memory_order_relaxed) == seen && run_one()) {
    }
  }
}

Shuffle& shuffle() {
  static auto* instance = new Shuffle(options().shuffle_seed);
  return *instance;
}

}  // namespace softnpu
