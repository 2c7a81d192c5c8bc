// Events, against flags that tasks of plain queues set and wait for.
#include <atomic>
#include <memory>

#include "device.h"
#include "measure.h"
#include "plain_queue.h"

namespace bench {
namespace {

constexpr int kEvents = 256;

struct PlainEvent {
  void record(PlainQueue& queue) {
    auto mark = std::make_shared<std::atomic<bool>>(false);
    newest = mark;
    queue.enqueue([mark] {
      mark->store(true);
      mark->notify_all();
    });
  }
  void wait(PlainQueue& queue) const {
    queue.enqueue([mark = newest] { mark->wait(false); });
  }
  bool reached() const { return newest->load(); }

  std::shared_ptr<std::atomic<bool>> newest;
};

struct Sides {
  Stream producer;
  Stream consumer;
  Event event;
  PlainQueue plain_producer;
  PlainQueue plain_consumer;
  PlainEvent plain_event;
};

std::pair<Batch, Batch> record_query() {
  auto sides = std::make_shared<Sides>();
  const auto ours = [sides] {
    return seconds([&] {
             for (int i = 0; i < kEvents; ++i) {
               aclrtEventRecordedStatus status;
               REQUIRE_ACL(aclrtRecordEvent(sides->event.get(), sides->producer.get()));
               REQUIRE_ACL(aclrtQueryEventStatus(sides->event.get(), &status));
             }
           }) /
           kEvents;
  };
  const auto plain = [sides] {
    int reached = 0;
    const double time = seconds([&] {
      for (int i = 0; i < kEvents; ++i) {
        sides->plain_event.record(sides->plain_producer);
        reached += sides->plain_event.reached();
      }
    });
    sides->plain_producer.synchronize();
    return time / kEvents;
  };
  return {ours, plain};
}

std::pair<Batch, Batch> record_wait() {
  auto sides = std::make_shared<Sides>();
  const auto ours = [sides] {
    Gate gate;
    sides->producer.hold(gate);
    const double time = seconds([&] {
      for (int i = 0; i < kEvents; ++i) {
        REQUIRE_ACL(aclrtRecordEvent(sides->event.get(), sides->producer.get()));
        REQUIRE_ACL(aclrtStreamWaitEvent(sides->consumer.get(), sides->event.get()));
      }
    });
    gate.open();
    sides->consumer.synchronize();
    sides->producer.synchronize();
    return time / kEvents;
  };
  const auto plain = [sides] {
    Gate gate;
    sides->plain_producer.enqueue([&gate] { gate.pass(); });
    gate.await_reached();
    const double time = seconds([&] {
      for (int i = 0; i < kEvents; ++i) {
        sides->plain_event.record(sides->plain_producer);
        sides->plain_event.wait(sides->plain_consumer);
      }
    });
    gate.open();
    sides->plain_consumer.synchronize();
    return time / kEvents;
  };
  return {ours, plain};
}

}  // namespace

std::vector<Case> event_cases() {
  return {
      {"event_record_query", "record on an idle stream and query", "enqueue of a flag and look", {}, 0, record_query},
      {"event_record_wait", "record on a busy stream, another one waits", "flag and waiting task", {}, 0, record_wait},
  };
}

}  // namespace bench
