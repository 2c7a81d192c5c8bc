// One test per sentence of runtime/stream/task_queue.h, seen through streams and the driver of softnpu.
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class TaskQueueTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    REQUIRE_SOFTNPU();
  }
  void TearDown() override {
    AclFixture::TearDown();
    EXPECT_TRUE(eventually([] { return live_tasks() == 0; })) << live_tasks() << " tasks were never released";
  }
};

aclError succeed(char* /*message*/) { return ACL_SUCCESS; }

int count_threads() {
  DIR* folder = opendir("/proc/self/task");
  int count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

// --- the thread that runs a task ----------------------------------------------------------------------------------------

TEST_F(TaskQueueTest, SmallTaskOnAnIdleStreamRunsInTheLaunchingCall) {
  Stream stream = make_stream();
  std::thread::id ran_on;
  ASSERT_ACL(launch(stream, {.run =
                                 [&](char*) {
                                   ran_on = std::this_thread::get_id();
                                   return ACL_SUCCESS;
                                 },
                             .cost = Task::kSmallCost}));
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(TaskQueueTest, LargeTaskIsQueued) {
  Stream stream = make_stream();
  Flag open;
  ASSERT_ACL(launch(stream, {.run = [open](char*) { return open.within(kPatience) ? ACL_SUCCESS : ACL_ERROR_FAILURE; }}));
  open.set();  // if the launch had run the task, the wait in it would have failed
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(TaskQueueTest, SmallTaskAfterPendingWorkIsQueued) {
  Stream stream = make_stream();
  Gate gate(stream);
  Flag ran;
  ASSERT_ACL(launch(stream, {.run =
                                 [ran](char*) {
                                   ran.set();
                                   return ACL_SUCCESS;
                                 },
                             .cost = Task::kSmallCost}));
  EXPECT_FALSE(ran.is_set()) << "a small task ran before pending work";
  gate.open();
  EXPECT_TRUE(ran.within(kPatience));
}

TEST_F(TaskQueueTest, TaskForTheWorkerDoesNotRunInTheLaunchingCall) {
  Stream stream = make_stream();
  std::thread::id ran_on;
  ASSERT_ACL(launch(stream, {.run =
                                 [&](char*) {
                                   ran_on = std::this_thread::get_id();
                                   return ACL_SUCCESS;
                                 },
                             .cost = Task::kSmallCost,
                             .flags = SOFTNPU_TASK_ON_WORKER}));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

constexpr uint64_t kMediumCost = 50'000;  // is queued, and takes a millisecond

// The worker and the waiting thread race for each task, so that the test needs many rounds. Each round has a new stream, whose
// worker must start first, so that the waiting thread sometimes wins.
TEST_F(TaskQueueTest, ThreadThatWaitsWithoutLimitRunsTasks) {
  int helped = 0;
  for (int round = 0; round < 500 && helped == 0; ++round) {
    Stream stream = make_stream();
    std::thread::id ran_on;
    for (int count = 0; count < 8; ++count) {
      ASSERT_ACL(launch(stream, {.run = [&](char*) {
                          ran_on = std::this_thread::get_id();
                          return ACL_SUCCESS;
                        }}));
    }
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    helped += ran_on == std::this_thread::get_id();
  }
  EXPECT_GT(helped, 0) << "the waiting thread never ran a task";
}

TEST_F(TaskQueueTest, ThreadThatWaitsWithALimitRunsShortTasks) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the worker always runs the task first";
#endif
  for (const uint64_t cost : {Task::kSmallCost, kMediumCost}) {
    int helped = 0;
    for (int round = 0; round < 500 && helped == 0; ++round) {
      Stream stream = make_stream();
      std::atomic<std::thread::id> ran_on{};
      ASSERT_ACL(launch(stream, {.run = succeed, .cost = kMediumCost}));
      for (int count = 0; count < 8; ++count) {
        ASSERT_ACL(launch(stream, {.run =
                                       [&](char*) {
                                         ran_on = std::this_thread::get_id();
                                         return ACL_SUCCESS;
                                       },
                                   .cost = cost}));
      }
      const bool was_idle = ran_on.load() != std::thread::id();
      ASSERT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
      helped += !was_idle && ran_on.load() == std::this_thread::get_id();
    }
    EXPECT_GT(helped, 0) << "the waiting thread never ran a task of cost " << cost;
  }
}

TEST_F(TaskQueueTest, ThreadThatWaitsWithALimitReturnsInTime) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the worker always runs the task first";
#endif
  constexpr int kTasks = 50;
  int helped = 0;
  for (int round = 0; round < 100 && helped == 0; ++round) {
    Stream stream = make_stream();
    std::atomic<int> ran{0}, ran_here{0};
    const auto task = [&, here = std::this_thread::get_id()](char*) {
      std::this_thread::sleep_for(1ms);
      ++ran;
      ran_here += std::this_thread::get_id() == here;
      return ACL_SUCCESS;
    };
    for (int count = 0; count < kTasks; ++count) ASSERT_ACL(launch(stream, {.run = task, .cost = kMediumCost}));
    Gate gate(stream);
    ASSERT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 5));
    helped = ran_here;
    gate.open();
    ASSERT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
    ASSERT_EQ(ran, kTasks);
  }
  EXPECT_GT(helped, 0) << "the waiting thread never ran a task";
  EXPECT_LT(helped, kTasks) << "the waiting thread ran tasks after its limit";
}

// Also if their cost is small: some operators take long for few elements.
TEST_F(TaskQueueTest, ThreadThatWaitsWithALimitDoesNotRunLongTasks) {
  for (const uint64_t cost : {kMediumCost, Task::kLargeCost}) {
    for (int round = 0; round < 20; ++round) {
      Stream stream = make_stream();  // its worker must start first, so that a waiting thread would run the task
      std::atomic<std::thread::id> ran_on{};
      const auto run = [&](char*) {
        ran_on = std::this_thread::get_id();
        std::this_thread::sleep_for(20ms);
        return ACL_SUCCESS;
      };
      ASSERT_ACL(launch(stream, {.run = run, .name = "aclnnLong", .cost = cost}));
      while (aclrtSynchronizeStreamWithTimeout(stream, 10) != ACL_SUCCESS) {
      }
      EXPECT_NE(ran_on.load(), std::this_thread::get_id()) << "a long task ran in a call with a time limit, round " << round;
    }
  }
}

TEST_F(TaskQueueTest, WaitingThreadDoesNotRunHostCallbacks) {
  Stream stream = make_stream();
  for (int round = 0; round < 50; ++round) {
    std::thread::id task_on, callback_on;
    ASSERT_ACL(launch(stream, {.run = [&](char*) {
                        task_on = std::this_thread::get_id();
                        return ACL_SUCCESS;
                      }}));
    ASSERT_ACL(run_on(stream, [&] { callback_on = std::this_thread::get_id(); }));
    ASSERT_ACL(launch(stream, {.run = succeed}));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    ASSERT_NE(callback_on, std::this_thread::get_id()) << "a host callback ran in a waiting call";
    ASSERT_NE(callback_on, std::thread::id());
  }
}

TEST_F(TaskQueueTest, WaitingThreadRunsTasksThroughWaitsForOtherStreams) {
  Stream first = make_stream(), second = make_stream();
  Event event = make_event();
  std::atomic<int> ran{0};
  const auto count = [&](char*) {
    ++ran;
    return ACL_SUCCESS;
  };
  for (int round = 0; round < 100; ++round) {
    ASSERT_ACL(launch(first, {.run = count}));
    ASSERT_ACL(aclrtRecordEvent(event, first));
    ASSERT_ACL(aclrtStreamWaitEvent(second, event));
    ASSERT_ACL(launch(second, {.run = count}));
    ASSERT_ACL(aclrtSynchronizeStream(second));
    ASSERT_EQ(ran, 2 * (round + 1));
  }
}

TEST_F(TaskQueueTest, OrderDoesNotDependOnTheThreadThatRunsTasks) {
  Stream stream = make_stream();
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::vector<int> order;
  std::atomic<bool> stop{false};
  std::vector<std::thread> waiters;
  for (int count = 0; count < 2; ++count) {
    waiters.emplace_back([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      while (!stop) EXPECT_ACL(aclrtSynchronizeStream(stream));
    });
  }
  constexpr int kTasks = 3000;
  for (int number = 0; number < kTasks; ++number) {
    ASSERT_ACL(launch(stream, {.run =
                                   [&, number](char*) {
                                     order.push_back(number);
                                     return ACL_SUCCESS;
                                   },
                               .cost = number % 3 == 0 ? Task::kSmallCost : Task::kLargeCost}));
  }
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  stop = true;
  for (std::thread& waiter : waiters) waiter.join();
  ASSERT_EQ(order.size(), size_t(kTasks));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(TaskQueueTest, TasksOfOneThreadKeepTheirOrder) {
  Stream stream = make_stream();
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  constexpr int kThreads = 4, kTasks = 1000;
  std::vector<int> seen[kThreads];
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      for (int number = 0; number < kTasks; ++number) {
        EXPECT_ACL(launch(stream, {.run =
                                       [&seen, thread, number](char*) {
                                         seen[thread].push_back(number);
                                         return ACL_SUCCESS;
                                       },
                                   .cost = number % 2 ? Task::kSmallCost : Task::kLargeCost}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  for (const std::vector<int>& numbers : seen) {
    EXPECT_EQ(numbers.size(), size_t(kTasks));
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  }
}

// --- a full queue -------------------------------------------------------------------------------------------------------

TEST_F(TaskQueueTest, LaunchWaitsWhileTheQueueIsFull) {
  constexpr int kTasks = 1500;  // the queue holds 1,024
  Stream stream = make_stream();
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  Gate gate(stream);
  std::atomic<int> submitted{0};
  std::vector<int> order;
  Flag all_submitted;
  std::thread submitter([&] {
    EXPECT_ACL(aclrtSetCurrentContext(context));
    for (int number = 0; number < kTasks; ++number) {
      EXPECT_ACL(launch(stream, {.run = [&order, number](char*) {
                          order.push_back(number);
                          return ACL_SUCCESS;
                        }}));
      ++submitted;
    }
    all_submitted.set();
  });
  EXPECT_TRUE(eventually([&] { return submitted > 900; })) << "only " << submitted << " tasks fit";
  EXPECT_FALSE(all_submitted.within(50ms)) << "the queue has no limit";
  gate.open();
  EXPECT_TRUE(all_submitted.within(kPatience));
  submitter.join();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  ASSERT_EQ(order.size(), size_t(kTasks));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// --- release ------------------------------------------------------------------------------------------------------------

TEST_F(TaskQueueTest, EveryTaskIsReleasedOnce) {
  {
    Stream stream = make_stream();
    ASSERT_ACL(launch(stream, {.run = succeed, .cost = Task::kSmallCost}));
    EXPECT_EQ(live_tasks(), 0) << "run in the launching call";
    ASSERT_ACL(launch(stream, {.run = succeed}));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    EXPECT_EQ(live_tasks(), 0) << "run from the queue";

    ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
    ASSERT_ACL(launch(stream, {.run = succeed}));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
    EXPECT_EQ(live_tasks(), 0) << "failed and skipped";
  }
  {
    Stream stream = make_stream();
    Gate gate(stream);
    ASSERT_ACL(launch(stream, {.run = succeed}));
    EXPECT_EQ(live_tasks(), 1);
    ASSERT_TRUE(gate.entered().within(kPatience));
    ASSERT_ACL(aclrtDestroyStreamForce(stream.release()));
  }
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; })) << "dropped by force";
}

TEST_F(TaskQueueTest, DriverReturnsTheAddressForKernels) {
  DeviceBuffer device = make_device_buffer(64);
  PinnedBuffer pinned = make_pinned_buffer(64);
  void* alias = nullptr;
  ASSERT_ACL(driver()->alias(device, 64, &alias));
  const auto address = reinterpret_cast<uintptr_t>(device.get());
  EXPECT_GE(address, driver()->device_begin);
  EXPECT_LT(address, driver()->device_end);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(alias), address + uintptr_t(driver()->alias_offset));
  ASSERT_ACL(driver()->alias(pinned, 64, &alias));
  int on_stack = 0;
  EXPECT_REFUSED(driver()->alias(&on_stack, 4, &alias));
  EXPECT_REFUSED(driver()->alias(device, size_t{1} << 40, &alias));
}

// --- threads ------------------------------------------------------------------------------------------------------------

// Returns when the system does not list the thread any more, which is after join().
void start_and_end_a_thread() {
  std::atomic<pid_t> id{0};
  std::thread([&] { id = gettid(); }).join();
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists("/proc/self/task/" + std::to_string(id)); }));
}

// Whether the process uses no processor time during a period. Several periods are tried, because threads may still go to sleep.
bool comes_to_rest() {
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  return eventually([&] {
    const auto before = used();
    std::this_thread::sleep_for(200ms);
    return used() - before < 5ms;
  });
}

class ChildThreads : public TaskQueueTest {};

TEST_F(ChildThreads, ExistOnlyWhereTheyAreNeeded) {
  start_and_end_a_thread();  // a sanitizer starts another thread with the first one
  const int before = count_threads();
  std::vector<Stream> streams;
  for (int count = 0; count < 32; ++count) streams.push_back(make_stream());
  Event event = make_event(ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC);
  for (const Stream& stream : streams) {
    ASSERT_ACL(launch(stream, {.run = succeed, .cost = Task::kSmallCost}));
    ASSERT_ACL(aclrtRecordEvent(event, stream));
    ASSERT_ACL(aclrtStreamWaitEvent(streams.front(), event));
  }
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(count_threads(), before) << "small work on idle streams started threads";

  ASSERT_TRUE(signal_when_run(streams.front()).within(kPatience));
  EXPECT_EQ(count_threads(), before + 1) << "one callback did not start one thread";
  streams.clear();
  EXPECT_TRUE(eventually([&] { return count_threads() == before; })) << "the thread outlives its stream";
}

TEST_F(TaskQueueTest, ThreadsExistOnlyWhereTheyAreNeeded) {
  EXPECT_CHILD_PASSES("ChildThreads.ExistOnlyWhereTheyAreNeeded", {"SOFTNPU_LAUNCH=hybrid"});
}

TEST_F(TaskQueueTest, IdleStreamsUseNoProcessorTime) {
  std::vector<Stream> streams;
  for (int count = 0; count < 8; ++count) {
    streams.push_back(make_stream());
    ASSERT_TRUE(signal_when_run(streams.back()).within(kPatience));
  }
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_TRUE(comes_to_rest());
}

TEST_F(TaskQueueTest, StreamHeldByAnEventUsesNoProcessorTime) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  ASSERT_TRUE(gate.entered().within(kPatience));
  EXPECT_TRUE(comes_to_rest());
}

// --- SOFTNPU_LAUNCH=queue ----------------------------------------------------------------------------------------------

TEST_F(TaskQueueTest, StreamsAndEventsWorkWhenEverythingIsQueued) {
  EXPECT_CHILD_PASSES("StreamTest.*:EventTest.*:EventTimeTest.*", {"SOFTNPU_LAUNCH=queue"});
}

}  // namespace
}  // namespace softnpu::test
