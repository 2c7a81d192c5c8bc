// Putting work on a stream, and waiting for it.
#include <memory>

#include "device.h"
#include "measure.h"
#include "plain_queue.h"

namespace bench {
namespace {

constexpr int kTasks = 512;  // fewer than a stream holds, so that no launch waits for room
constexpr int kRoundTrips = 100;
constexpr auto kUntilParked = std::chrono::microseconds(30);

struct Sides {
  Stream stream;
  PlainQueue queue;
};

std::function<void()> empty_task() {
  return [payload = Payload{}] { static_cast<void>(payload); };
}

void spin(std::chrono::nanoseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// The worker is at work on small tasks all the while, as in a training loop that runs ahead of its device.
std::pair<Batch, Batch> enqueue_busy() {
  auto sides = std::make_shared<Sides>();
  const auto ours = [sides] {
    const double time = seconds([&] {
      for (int i = 0; i < kTasks; ++i) sides->stream.launch_small();
    });
    sides->stream.synchronize();
    return time / kTasks;
  };
  const auto plain = [sides] {
    const double time = seconds([&] {
      for (int i = 0; i < kTasks; ++i) {
        sides->queue.enqueue([payload = Payload{}] {
          static_cast<void>(payload);
          small_work();
        });
      }
    });
    sides->queue.synchronize();
    return time / kTasks;
  };
  return {ours, plain};
}

std::pair<Batch, Batch> launch_inline() {
  auto sides = std::make_shared<Sides>();
  const auto ours = [sides] {
    return seconds([&] {
             for (int i = 0; i < kTasks; ++i) sides->stream.launch_empty(kCheap);
           }) /
           kTasks;
  };
  const auto plain = [sides] {
    const double time = seconds([&] {
      for (int i = 0; i < kTasks; ++i) sides->queue.enqueue(empty_task());
    });
    sides->queue.synchronize();
    return time / kTasks;
  };
  return {ours, plain};
}

void plain_round_trip(PlainQueue& queue) {
  queue.enqueue(empty_task());
  queue.synchronize();
}

std::pair<Batch, Batch> round_trip_helped() {
  auto sides = std::make_shared<Sides>();
  const auto ours = [sides] {
    return seconds([&] {
             for (int i = 0; i < kRoundTrips; ++i) {
               sides->stream.launch_empty(kExpensive);
               sides->stream.synchronize();
             }
           }) /
           kRoundTrips;
  };
  const auto plain = [sides] {
    return seconds([&] {
             for (int i = 0; i < kRoundTrips; ++i) plain_round_trip(sides->queue);
           }) /
           kRoundTrips;
  };
  return {ours, plain};
}

// A wait with a time limit does not help: the worker, asleep by then, has to be woken.
std::pair<Batch, Batch> round_trip_parked() {
  constexpr int32_t kLimit = 10'000;
  auto sides = std::make_shared<Sides>();
  const auto one_by_one = [](const auto& round_trip) {
    double time = 0;
    for (int i = 0; i < kRoundTrips; ++i) {
      spin(kUntilParked);
      time += seconds(round_trip);
    }
    return time / kRoundTrips;
  };
  const auto ours = [sides, one_by_one] {
    return one_by_one([&] {
      sides->stream.launch_empty(kExpensive);
      REQUIRE_ACL(aclrtSynchronizeStreamWithTimeout(sides->stream.get(), kLimit));
    });
  };
  const auto plain = [sides, one_by_one] { return one_by_one([&] { plain_round_trip(sides->queue); }); };
  return {ours, plain};
}

}  // namespace

std::vector<Case> queue_cases() {
  const auto at_most = [](double value) { return Bar{Bar::Kind::kAtMost, value}; };
  return {
      {"enqueue_busy", "launch on a busy stream", "enqueue on a busy queue", at_most(0.4), 0, enqueue_busy},
      {"launch_inline", "launch of a cheap empty task on an idle stream", "enqueue of an empty task", at_most(0.25), 0,
       launch_inline},
      {"round_trip_helped", "launch of a queued empty task and synchronize", "enqueue and wait", at_most(0.2), 0,
       round_trip_helped},
      {"round_trip_parked", "the same with a time limit and a sleeping worker", "enqueue and wait, worker asleep", at_most(1.5),
       0, round_trip_parked},
  };
}

}  // namespace bench
