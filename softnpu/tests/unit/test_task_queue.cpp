// The lives of a queue, and its state while a function of the client runs. softnpu/tests/test_task_queue.cpp tests the rest
// through the C ABI.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/stream/exception.h"
#include "runtime/stream/task_queue.h"

namespace softnpu {
namespace {

class Quiet : public TaskQueue::Observer {
 public:
  std::string place() const override { return "a queue of a test"; }
  rtExceptionInfo task_failed(const SoftnpuTaskKind&, Ticket, const Status&) override { return {}; }
};

// Whether that thread of this process sleeps.
bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return state == "S";
}

// Queues are never destroyed, like those of streams.
class QueueTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void TearDown() override {
    set_exception_callback(nullptr);
    close();
  }

  void open() { queue().open(observer(), 0, 0); }
  void close() {
    closed_ = false;
    queue().close([](void* closed) { static_cast<std::atomic<bool>*>(closed)->store(true); }, &closed_);
    while (!closed_) std::this_thread::yield();
  }
  static TaskQueue& queue() {
    static auto* const instance = new TaskQueue;
    return *instance;
  }
  static Quiet& observer() {
    static auto* const instance = new Quiet;
    return *instance;
  }

  // Holds the queue until open_gate().
  void shut_gate() {
    gate_ = false;
    std::atomic<bool>* const gate = &gate_;
    EXPECT_TRUE(queue().submit(kGate, &gate, sizeof gate, TaskQueue::kInlineCost + 1).ok());
  }
  void open_gate() { gate_ = true; }
  Ticket submit_empty() {
    Ticket ticket = 0;
    EXPECT_TRUE(queue().submit(kEmpty, &ticket, sizeof ticket, TaskQueue::kInlineCost + 1, ticket).ok());
    return ticket;
  }

  static constexpr SoftnpuTaskKind kEmpty = {.name = "empty",
                                             .run = [](void*, char*) { return aclError(ACL_SUCCESS); },
                                             .release = nullptr,
                                             .ready = nullptr,
                                             .flags = 0,
                                             .visit = nullptr};
  static constexpr SoftnpuTaskKind kGate = {.name = "gate",
                                            .run = [](void* payload, char*) -> aclError {
                                              const auto& gate = **static_cast<std::atomic<bool>**>(payload);
                                              while (!gate) std::this_thread::yield();
                                              return ACL_SUCCESS;
                                            },
                                            .release = nullptr,
                                            .ready = nullptr,
                                            .flags = SOFTNPU_TASK_ON_WORKER,
                                            .visit = nullptr};
  static constexpr SoftnpuTaskKind kBroken = {.name = "broken",
                                              .run = [](void*, char*) { return aclError(ACL_ERROR_RT_AICORE_EXCEPTION); },
                                              .release = nullptr,
                                              .ready = nullptr,
                                              .flags = 0,
                                              .visit = nullptr};
  std::atomic<bool> gate_{true};
  std::atomic<bool> closed_{false};
};

TEST_F(QueueTest, EachLifeHasItsOwnTickets) {
  const Ticket first_life = queue().life();
  const Ticket ticket = submit_empty();
  EXPECT_GT(ticket, first_life);
  close();
  open();
  EXPECT_GT(queue().life(), ticket);
  EXPECT_TRUE(queue().reached(queue().life())) << "a new life has pending tasks";
}

TEST_F(QueueTest, AbortOfAnEarlierLifeDoesNothing) {
  const Ticket first_life = queue().life();
  close();
  open();
  shut_gate();
  const Ticket ticket = submit_empty();
  const uint32_t aborts = queue().abort_count();
  EXPECT_EQ(queue().skip_pending(ACL_ERROR_RT_STREAM_ABORT, first_life), 0u);
  EXPECT_EQ(queue().abort_reason(ticket, aborts), ACL_SUCCESS);
  EXPECT_EQ(queue().skip_pending(ACL_ERROR_RT_DEVICE_TASK_ABORT, queue().life()), ticket);
  EXPECT_EQ(queue().abort_reason(ticket, aborts), ACL_ERROR_RT_DEVICE_TASK_ABORT);
  open_gate();
  EXPECT_TRUE(queue().wait(ticket, Deadline::never()));
  EXPECT_EQ(queue().abort_reason(submit_empty(), aborts), ACL_SUCCESS) << "a task after the abort was aborted";
}

TEST_F(QueueTest, StopOfAnEarlierLifeDoesNothing) {
  const Ticket first_life = queue().life();
  const Ticket old = submit_empty();
  EXPECT_TRUE(queue().wait(old, Deadline::never()));
  close();
  open();
  const Status reason(ACL_ERROR_RT_AICORE_EXCEPTION, "it broke");
  queue().stop(reason, first_life);
  EXPECT_TRUE(queue().stop_reason().ok());
  queue().stop(reason, queue().life());
  EXPECT_EQ(queue().stop_reason().code(), reason.code());
  EXPECT_EQ(queue().failure_before(queue().life()).code(), reason.code());
  EXPECT_TRUE(queue().failure_before(old).ok()) << "an earlier life got the failure";
}

TEST_F(QueueTest, ThreadThatWaitsForRoomDoesNotSubmitToTheNextLife) {
  for (int round = 0; round < 50; ++round) {
    shut_gate();
    for (uint64_t count = 1; count < TaskQueue::kCapacity; ++count) submit_empty();
    std::atomic<pid_t> number{0};
    Status status;
    std::thread blocked([&] {
      number = gettid();
      Ticket ticket = 0;
      status = queue().submit(kEmpty, &ticket, sizeof ticket, 0, ticket);
    });
    while (number == 0 || !is_asleep(number)) std::this_thread::yield();
    closed_ = false;
    queue().close([](void* closed) { static_cast<std::atomic<bool>*>(closed)->store(true); }, &closed_);
    open_gate();
    while (!closed_) std::this_thread::yield();
    open();
    blocked.join();
    EXPECT_EQ(status.code(), ACL_ERROR_RT_INVALID_HANDLE) << "round " << round;
    EXPECT_EQ(queue().submitted(), queue().life()) << "round " << round;
  }
}

TEST_F(QueueTest, ClosingWithoutPendingTasksIsNotAnAbort) {
  const uint32_t aborts = queue().abort_count();
  EXPECT_TRUE(queue().wait(submit_empty(), Deadline::never()));
  close();
  EXPECT_EQ(queue().abort_count(), aborts);
  open();
}

// At exit the library waits for running tasks but not for functions of the client, which may wait for the exiting thread.
TEST_F(QueueTest, IsNotBusyWhileTheExceptionCallbackRuns) {
  static std::atomic<bool> busy, own;
  busy = false;
  own = true;
  set_exception_callback([](aclrtExceptionInfo*) {
    busy = queue().busy();
    own = queue().busy_with_own_code();
  });
  Ticket ticket = 0;
  ASSERT_TRUE(queue().submit(kBroken, &ticket, sizeof ticket, TaskQueue::kInlineCost + 1, ticket).ok());
  EXPECT_TRUE(queue().wait(ticket, Deadline::never()));
  EXPECT_TRUE(busy);
  EXPECT_FALSE(own);
  EXPECT_FALSE(queue().take_failure(ticket).ok());
}

}  // namespace
}  // namespace softnpu
