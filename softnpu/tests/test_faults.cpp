// Injected failures and delays: one test per sentence of the section in docs/checks.md.
#include <dlfcn.h>

#include <atomic>
#include <map>
#include <sstream>
#include <thread>

#include "runtime/softnpu.h"
#include "testing/buffers.h"

namespace softnpu::test {
namespace {

constexpr aclError kOutOfMemory = ACL_ERROR_RT_MEMORY_ALLOCATION;
constexpr aclError kBrokenKernel = ACL_ERROR_RT_AICORE_EXCEPTION;
constexpr aclError kBrokenCopy = ACL_ERROR_RT_DRV_INTERNAL_ERROR;

aclError control(const std::string& command, std::string* answer = nullptr) {
  static const auto function = reinterpret_cast<decltype(&softnpuControl)>(dlsym(RTLD_DEFAULT, "softnpuControl"));
  char reply[4096];
  const aclError code = function(command.c_str(), reply, sizeof reply);
  if (answer != nullptr) *answer = reply;
  return code;
}

std::map<std::string, int> counts() {
  std::string answer;
  EXPECT_ACL(control("faults", &answer));
  std::map<std::string, int> numbers;
  std::istringstream lines(answer);
  std::string name;
  for (int number = 0; lines >> name >> number;) numbers[name] = number;
  return numbers;
}

class FaultsTest : public AclFixture {
 protected:
  void SetUp() override {
    REQUIRE_SOFTNPU();
    AclFixture::SetUp();
  }
  void TearDown() override {
    if (driver() == nullptr) return;
    EXPECT_ACL(control("faults off"));
    AclFixture::TearDown();
  }

  static void set(const std::string& rules) { ASSERT_ACL(control("faults " + rules)); }
  static aclError allocate() {
    void* block = nullptr;
    const aclError code = aclrtMalloc(&block, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
    if (code != ACL_SUCCESS) return code;
    EXPECT_ACL(aclrtFree(block));
    return ACL_SUCCESS;
  }
  static aclError allocate_host() {
    void* block = nullptr;
    const aclError code = aclrtMallocHost(&block, 1000);
    if (code != ACL_SUCCESS) return code;
    EXPECT_ACL(aclrtFreeHost(block));
    return ACL_SUCCESS;
  }
};

TEST_F(FaultsTest, NthAllocationFailsWithOutOfMemory) {
  set("malloc:3");
  EXPECT_ACL(allocate());
  EXPECT_ACL(allocate());
  EXPECT_ACL_ERROR(kOutOfMemory, allocate());
  const std::string message = recent_error();
  EXPECT_NE(message.find("cannot allocate 1000 bytes: device 0 has "), std::string::npos) << message;
  EXPECT_NE(message.find("a fault was injected by the rule 'malloc:3'"), std::string::npos) << message;
  EXPECT_ACL(allocate());
  EXPECT_EQ(counts()["malloc"], 4);
  EXPECT_EQ(counts()["injected"], 1);
}

TEST_F(FaultsTest, EveryFunctionThatAllocatesDeviceMemoryIsCounted) {
  set("malloc:1+");
  void* block = nullptr;
  EXPECT_ACL_ERROR(kOutOfMemory, aclrtMalloc(&block, 8, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT_ACL_ERROR(kOutOfMemory, aclrtMallocAlign32(&block, 8, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT_ACL_ERROR(kOutOfMemory, aclrtMallocCached(&block, 8, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT_ACL_ERROR(kOutOfMemory, aclrtMallocWithCfg(&block, 8, ACL_MEM_MALLOC_HUGE_FIRST, nullptr));
  EXPECT_EQ(counts()["malloc"], 4);
}

TEST_F(FaultsTest, FaultCanBeRepeated) {
  set("malloc:2+");
  EXPECT_ACL(allocate());
  for (int i = 0; i < 3; ++i) EXPECT_ACL_ERROR(kOutOfMemory, allocate());
  set("malloc:every 3");
  for (int i = 1; i <= 9; ++i) EXPECT_EQ(allocate(), i % 3 == 0 ? kOutOfMemory : ACL_SUCCESS) << i;
  recent_error();
}

TEST_F(FaultsTest, PinnedMemoryIsCountedSeparately) {
  set("hostmalloc:2");
  EXPECT_ACL(allocate());
  EXPECT_ACL(allocate_host());
  EXPECT_ACL(allocate());
  EXPECT_ACL_ERROR(kOutOfMemory, allocate_host());
  EXPECT_RECENT_ERROR("the host has no 1000 bytes of memory: a fault was injected by the rule 'hostmalloc:2'");
  EXPECT_ACL(allocate_host());
}

TEST_F(FaultsTest, FailureNamesDeviceStreamTaskAndOriginOfTheLaunch) {
  static const auto set_origin = reinterpret_cast<decltype(&softnpuSetOrigin)>(dlsym(RTLD_DEFAULT, "softnpuSetOrigin"));
  static int asked;
  const auto origin = [](char* text, size_t bytes) {
    ++asked;
    return std::snprintf(text, bytes, "train.py:12 in step");
  };
  Stream stream = make_stream();
  int32_t id = 0;
  ASSERT_ACL(aclrtStreamGetId(stream, &id));
  const auto failure = [&](uint64_t cost) {
    set("launch:2");
    asked = 0;
    for (int i = 0; i < 2; ++i) EXPECT_ACL(launch(stream, {.run = [](char*) { return aclError(ACL_SUCCESS); }, .cost = cost}));
    EXPECT_ACL_ERROR(kBrokenKernel, aclrtSynchronizeStream(stream));
    return recent_error();
  };
  const std::string place = "'launch:2' (device 0, stream " + std::to_string(id) + ", task ";

  set_origin(origin, SOFTNPU_ORIGIN_FAILURES);
  const std::string small = failure(Task::kSmallCost);
  EXPECT_NE(small.find(place), std::string::npos) << small;
  if (asked > 0) {  // else another thread ran the task, because of SOFTNPU_LAUNCH
    EXPECT_EQ(asked, 1) << "the origin was asked for a task that did not fail";
    EXPECT_NE(small.find(", launched from train.py:12 in step)"), std::string::npos) << small;
  }

  set_origin(origin, SOFTNPU_ORIGIN_RACES);
  const std::string unwanted = failure(Task::kSmallCost);
  EXPECT_NE(unwanted.find(place), std::string::npos) << unwanted;
  EXPECT_EQ(unwanted.find("launched from"), std::string::npos) << unwanted;

  set_origin(nullptr, 0);
  const std::string large = failure(Task::kLargeCost);
  EXPECT_NE(large.find(place), std::string::npos) << large;
  EXPECT_EQ(large.find("launched from"), std::string::npos) << large;
}

TEST_F(FaultsTest, TaskFailsWhenItRunsWithItsOwnName) {
  for (const uint64_t cost : {Task::kSmallCost, Task::kLargeCost}) {
    Stream stream = make_stream();
    std::atomic<int> runs = 0;
    const auto count = [&](char*) {
      ++runs;
      return aclError(ACL_SUCCESS);
    };
    set("launch:2:507014");
    ASSERT_ACL(launch(stream, {.run = count, .name = "aclnnFirst", .cost = cost}));
    ASSERT_ACL(launch(stream, {.run = count, .name = "aclnnSecond", .cost = cost}));
    ASSERT_ACL(launch(stream, {.run = count, .name = "aclnnThird", .cost = cost}));
    EXPECT_ACL_ERROR(507014, aclrtSynchronizeStream(stream));
    EXPECT_RECENT_ERROR("task 'aclnnSecond' failed: a fault was injected by the rule 'launch:2:507014'");
    EXPECT_EQ(runs, 1) << "a task after the failed one ran";
    ASSERT_ACL(launch(stream, {.run = count, .cost = cost}));
    EXPECT_ACL(aclrtSynchronizeStream(stream));
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(live_tasks(), 0) << "the failed task was not released";
  }
}

TEST_F(FaultsTest, TaskFailsInTheOrderOfItsStream) {
  Stream stream = make_stream();
  Gate gate(stream);
  set("launch:1");
  ASSERT_ACL(launch(stream, {.run = [](char*) { return aclError(ACL_SUCCESS); }, .cost = Task::kSmallCost}));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 1));
  gate.open();
  EXPECT_ACL_ERROR(kBrokenKernel, aclrtSynchronizeStream(stream));
}

TEST_F(FaultsTest, TaskThatDoesNotRunIsReleasedOnce) {
  {
    Stream stream = make_stream();
    Gate gate(stream);
    set("launch:1+,delay:1+:1s");
    for (int i = 0; i < 5; ++i) ASSERT_ACL(launch(stream, {.run = [](char*) { return aclError(ACL_SUCCESS); }}));
    gate.open();
    ASSERT_ACL(aclrtDestroyStreamForce(stream.release()));
  }
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; }));
}

TEST_F(FaultsTest, AsynchronousCopyOrFillFailsWhenItRuns) {
  Stream stream = make_stream();
  DeviceBuffer device = device_copy_of(Bytes(64, 1));
  PinnedBuffer host = pinned_copy_of(Bytes(64, 2));
  set("copy:1,copy:2:507900");
  ASSERT_ACL(aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  EXPECT_ACL_ERROR(kBrokenCopy, aclrtSynchronizeStream(stream));
  EXPECT_RECENT_ERROR("task 'aclrtMemcpyAsync' failed: a fault was injected by the rule 'copy:1'");
  ASSERT_ACL(aclrtMemsetAsync(device, 64, 3, 64, stream));
  EXPECT_ACL_ERROR(507900, aclrtSynchronizeStream(stream));
  EXPECT_RECENT_ERROR("task 'aclrtMemsetAsync' failed");
  EXPECT_EQ(download(device, 64), Bytes(64, 1));
  EXPECT_EQ(counts()["copy"], 3);
  EXPECT_EQ(counts()["task"], 2);
}

TEST_F(FaultsTest, StagedCopyThatFailsReleasesItsMemory) {
  Stream stream = make_stream();
  DeviceBuffer device = device_copy_of(Bytes(64, 1));
  const Bytes source(64, 2);
  set("copy:1");
  ASSERT_ACL(aclrtMemcpyAsync(device, 64, source.data(), 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
  EXPECT_ACL_ERROR(kBrokenCopy, aclrtSynchronizeStream(stream));
  EXPECT_EQ(download(device, 64), Bytes(64, 1));
}

TEST_F(FaultsTest, SynchronousCopyOrFillFailsInTheCall) {
  DeviceBuffer device = device_copy_of(Bytes(64, 1));
  const Bytes source(64, 2);
  set("copy:1+");
  EXPECT_ACL_ERROR(kBrokenCopy, aclrtMemcpy(device, 64, source.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT_RECENT_ERROR("aclrtMemcpy: a fault was injected by the rule 'copy:1+'");
  EXPECT_ACL_ERROR(kBrokenCopy, aclrtMemset(device, 64, 3, 64));
  set("off");
  EXPECT_EQ(download(device, 64), Bytes(64, 1));
}

TEST_F(FaultsTest, DelayedTaskStartsLaterAndTheCallerDoesNotWait) {
  using Clock = std::chrono::steady_clock;
  Stream stream = make_stream();
  for (const uint64_t cost : {Task::kSmallCost, Task::kLargeCost}) {
    set("delay:1:50ms");
    const auto start = Clock::now();
    std::vector<Clock::time_point> begun;
    const auto note = [&](char*) {
      begun.push_back(Clock::now());
      return aclError(ACL_SUCCESS);
    };
    ASSERT_ACL(launch(stream, {.run = note, .cost = cost}));
    ASSERT_ACL(launch(stream, {.run = note, .cost = cost}));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    ASSERT_EQ(begun.size(), 2U);
    EXPECT_GE(begun[0] - start, 50ms);
    EXPECT_GE(begun[1], begun[0]) << "a delay changed the order";
    EXPECT_EQ(counts()["delayed"], 1);
    EXPECT_EQ(counts()["injected"], 0);
  }
}

TEST_F(FaultsTest, DelayOfOneStreamDoesNotDelayOthers) {
  Stream slow = make_stream(), quick = make_stream();
  int32_t id = 0;
  ASSERT_ACL(aclrtStreamGetId(slow, &id));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, control("faults delay:1:2h"));
  set("delay:stream=" + std::to_string(id) + ":3600s");
  Flag reached;
  ASSERT_ACL(launch(slow, {.run = [&](char*) {
                      reached.set();
                      return aclError(ACL_SUCCESS);
                    }}));
  ASSERT_ACL(launch(quick, {.run = [](char*) { return aclError(ACL_SUCCESS); }}));
  EXPECT_ACL(aclrtSynchronizeStream(quick));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(slow, 1));
  ASSERT_ACL(aclrtStreamAbort(slow));
  EXPECT_FALSE(reached.is_set());
  EXPECT_EQ(counts()["delayed"], 1);
}

TEST_F(FaultsTest, SettingRulesResetsTheCountersAndOffDoesNot) {
  set("count");
  EXPECT_ACL(allocate());
  EXPECT_ACL(allocate());
  set("off");
  EXPECT_ACL(allocate());
  EXPECT_EQ(counts()["malloc"], 2);
  set("malloc:2");
  EXPECT_EQ(counts()["malloc"], 0);
  EXPECT_ACL(allocate());
  EXPECT_ACL_ERROR(kOutOfMemory, allocate());
}

TEST_F(FaultsTest, FirstRuleThatAppliesDecidesTheCode) {
  set("malloc:2:507899, malloc:every 2, launch:1");
  EXPECT_ACL(allocate());
  EXPECT_ACL_ERROR(507899, allocate());
  EXPECT_ACL(allocate());
  EXPECT_ACL_ERROR(kOutOfMemory, allocate());
}

TEST_F(FaultsTest, BadRuleIsNamedAndChangesNothing) {
  set("malloc:2");
  EXPECT_ACL(allocate());
  for (const std::string bad : {"malloc",
                                "malloc:",
                                "malloc:0",
                                "malloc:-1",
                                "malloc:x",
                                "malloc:+",
                                "malloc:every",
                                "malloc:every 0",
                                "malloc:1:0",
                                "malloc:1:x",
                                "malloc:1:2:3",
                                "free:1",
                                "delay:1",
                                "delay:1:5",
                                "delay:1:5m",
                                "delay:1:0ms",
                                "delay:stream=:1ms",
                                "delay:stream=x:1ms",
                                "malloc:stream=1",
                                "launch:99999999999999999999",
                                "off:1",
                                "Malloc:1"}) {
    EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, control("faults malloc:1," + bad));
    EXPECT_RECENT_ERROR("'" + bad + "' is not a fault rule: a rule is ");
  }
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, control("faults malloc:1,"));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, control("faults malloc:1,off"));
  EXPECT_ACL_ERROR(kOutOfMemory, allocate());
}

TEST_F(FaultsTest, ThreadsShareOneCounter) {
  constexpr int kThreads = 4, kRounds = 300, kEvery = 7;
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  set("malloc:every 7,launch:every 7");
  std::atomic<int> failed_allocations = 0, failed_tasks = 0, runs = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      Stream stream = make_stream();
      for (int round = 0; round < kRounds; ++round) {
        if (allocate() != ACL_SUCCESS) ++failed_allocations;
        const uint64_t cost = (round + number) % 2 == 0 ? Task::kSmallCost : Task::kLargeCost;
        EXPECT_ACL(launch(stream, {.run =
                                       [&](char*) {
                                         ++runs;
                                         return aclError(ACL_SUCCESS);
                                       },
                                   .cost = cost}));
        if (aclrtSynchronizeStream(stream) != ACL_SUCCESS) ++failed_tasks;
      }
      recent_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed_allocations, kThreads * kRounds / kEvery);
  EXPECT_EQ(failed_tasks, kThreads * kRounds / kEvery);
  EXPECT_EQ(runs, kThreads * kRounds - failed_tasks);
  EXPECT_EQ(counts()["launch"], kThreads * kRounds);
  EXPECT_EQ(counts()["injected"], failed_allocations + failed_tasks);
}

TEST_F(FaultsTest, RulesMayChangeWhileTasksRun) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::atomic<bool> is_done = false;
  std::thread changer([&] {
    for (int round = 0; !is_done; ++round) {
      EXPECT_ACL(control(round % 2 == 0 ? "faults launch:every 3,delay:every 2:1us" : "faults off"));
      counts();
    }
  });
  Stream stream = make_stream();
  for (int round = 0; round < 2000; ++round) {
    ASSERT_ACL(launch(stream, {.run = [](char*) { return aclError(ACL_SUCCESS); },
                               .cost = round % 2 == 0 ? Task::kSmallCost : Task::kLargeCost}));
    if (round % 16 == 0) aclrtSynchronizeStream(stream);
  }
  is_done = true;
  changer.join();
  aclrtSynchronizeStream(stream);
  EXPECT_EQ(live_tasks(), 0);
}

TEST_F(FaultsTest, FaultsWorkInTheOtherLaunchModes) {
  EXPECT_CHILD_PASSES("FaultsTest.*Task*:FaultsTest.*Copy*:FaultsTest.*Delay*:FaultsTest.Threads*", {"SOFTNPU_LAUNCH=queue"});
  EXPECT_CHILD_PASSES("FaultsTest.*OwnName:FaultsTest.*Copy*:FaultsTest.Threads*", {"SOFTNPU_LAUNCH=sync"});
}

class ChildFaults : public FaultsTest {};

TEST_F(ChildFaults, OfTheEnvironment) {
  EXPECT_ACL(allocate());
  EXPECT_ACL_ERROR(kOutOfMemory, allocate());
  EXPECT_ACL(allocate());
}
TEST_F(ChildFaults, None) {
  EXPECT_ACL(allocate());
  EXPECT_EQ(counts()["malloc"], 0);
}

TEST_F(FaultsTest, RulesAreReadFromTheEnvironment) {
  EXPECT_CHILD_PASSES("ChildFaults.OfTheEnvironment", {"SOFTNPU_FAULTS=malloc:2"});
  const Child bad = run_child("ChildFaults.None", {"SOFTNPU_FAULTS=malloc:2,nonsense"});
  EXPECT_TRUE(bad.passed()) << bad.output;
  EXPECT_NE(bad.output.find("bad value 'malloc:2,nonsense' of SOFTNPU_FAULTS"), std::string::npos) << bad.output;
}

}  // namespace
}  // namespace softnpu::test
