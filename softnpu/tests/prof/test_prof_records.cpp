// The contents of recordings: names, times, order, correlation, marks, steps, threads, graphs. Without a recording there are
// none.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "prof/prof_fixture.h"
#include "runtime/profiler.h"
#include "testing/capture_fixture.h"

namespace softnpu::test {
namespace {

constexpr size_t kBytes = 4096;
constexpr uint64_t kAll =
    ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_AICPU | ACL_PROF_HCCL_TRACE | ACL_PROF_TRAINING_TRACE | ACL_PROF_MSPROFTX;

class ProfRecords : public ProfFixture {
 protected:
  void SetUp() override {
    ProfFixture::SetUp();
    device_ = make_device_buffer(kBytes);
    host_ = make_pinned_buffer(kBytes);
    stream_ = make_stream();
    ASSERT_ACL(aclrtStreamGetId(stream_, &stream_id_));
  }
  void TearDown() override {
    stream_ = Stream();
    device_ = DeviceBuffer();
    host_ = PinnedBuffer();
    ProfFixture::TearDown();
  }
  void copy() {
    EXPECT_ACL(aclrtMemcpyAsync(device_, kBytes, host_, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
    EXPECT_ACL(aclrtSynchronizeStream(stream_));
  }

  DeviceBuffer device_;
  PinnedBuffer host_;
  Stream stream_;
  int32_t stream_id_ = -1;
};

TEST_F(ProfRecords, ATaskHasNameStreamTimesAndItsCall) {
  Profile profile(*this, kAll);
  ASSERT_ACL(launch(stream_, kernel("aclnnTest", Task::kLargeCost, 2ms)));
  copy();
  profile.end();
  const auto tasks = lines("device_0/tasks.jsonl");
  const auto kernels = named(tasks, "aclnnTest");
  const auto copies = named(tasks, "aclrtMemcpyAsync");
  ASSERT_EQ(kernels.size(), 1u);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(word(kernels[0], "kind"), "kernel");
  EXPECT_EQ(word(copies[0], "kind"), "copy");
  EXPECT_EQ(word(copies[0], "direction"), "HtoD");
  EXPECT_EQ(number(copies[0], "bytes"), kBytes);
  for (const Json& task : {kernels[0], copies[0]}) {
    EXPECT_EQ(number(task, "stream"), stream_id_);
    EXPECT_GT(number(task, "enqueue_ns"), 0);
    EXPECT_LE(number(task, "enqueue_ns"), number(task, "start_ns"));
    EXPECT_LT(number(task, "start_ns"), number(task, "end_ns"));
  }
  EXPECT_GE(number(kernels[0], "end_ns") - number(kernels[0], "start_ns"), 1e6);
  EXPECT_LE(number(kernels[0], "end_ns"), number(copies[0], "start_ns"));  // tasks of a stream run in order
  const auto calls = named(lines("host/calls.jsonl"), "aclrtMemcpyAsync");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(number(calls[0], "correlation"), number(copies[0], "correlation"));
  EXPECT_GT(number(calls[0], "correlation"), 0);
  const auto end = lines("host/end.json");
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(number(end[0], "dropped"), 0);
  EXPECT_EQ(number(end[0], "unfinished"), 0);
}

TEST_F(ProfRecords, EachBitRecordsItsOwn) {
  const auto counts = [&](uint64_t bits) {
    Profile profile(*this, bits);
    for (const char* name : {"aclnnTest", "aclnnSort", "HcclTest"}) EXPECT_ACL(launch(stream_, kernel(name, Task::kSmallCost)));
    EXPECT_ACL(aclrtSynchronizeStream(stream_));
    profile.end();
    const auto tasks = lines("device_0/tasks.jsonl");
    return std::vector<size_t>{named(tasks, "aclnnTest").size(), named(tasks, "aclnnSort").size(),
                               named(tasks, "HcclTest").size(),
                               named(lines("host/calls.jsonl"), "aclrtSynchronizeStream").size()};
  };
  EXPECT_EQ(counts(ACL_PROF_TASK_TIME), (std::vector<size_t>{1, 0, 0, 0}));
  EXPECT_EQ(counts(ACL_PROF_AICPU), (std::vector<size_t>{0, 1, 0, 0}));
  EXPECT_EQ(counts(ACL_PROF_HCCL_TRACE), (std::vector<size_t>{0, 0, 1, 0}));
  EXPECT_EQ(counts(ACL_PROF_ACL_API), (std::vector<size_t>{0, 0, 0, 1}));
  EXPECT_EQ(counts(ACL_PROF_L2CACHE), (std::vector<size_t>{0, 0, 0, 0}));
  EXPECT_EQ(results().size(), 5u);
}

TEST_F(ProfRecords, NothingIsRecordedBeforeAndAfter) {
  copy();
  Profile profile(*this, kAll);
  profile.end();
  copy();
  EXPECT_TRUE(named(lines("device_0/tasks.jsonl"), "aclrtMemcpyAsync").empty());
  EXPECT_TRUE(named(lines("host/calls.jsonl"), "aclrtMemcpyAsync").empty());
  EXPECT_TRUE(lines("host/marks.jsonl").empty());
}

TEST_F(ProfRecords, MarksAndRangesHaveTheirTimesAndPlaces) {
  const std::string odd = "\"quoted\" \\ \n \xff end";
  Profile profile(*this, kAll);
  ASSERT_ACL(launch(stream_, kernel("aclnnTest", Task::kLargeCost, 2ms)));
  ASSERT_ACL(aclprofMarkEx(odd.data(), odd.size(), stream_));
  void* const stamp = aclprofCreateStamp();
  ASSERT_ACL(aclprofSetStampTraceMessage(stamp, "outer", 5));
  ASSERT_ACL(aclprofPush(stamp));
  ASSERT_ACL(aclprofSetStampTraceMessage(stamp, "inner", 5));
  ASSERT_ACL(aclprofPush(stamp));
  ASSERT_ACL(aclprofMark(stamp));
  ASSERT_ACL(aclprofPop());
  ASSERT_ACL(aclprofPop());
  uint32_t range = 0;
  ASSERT_ACL(aclprofSetStampTraceMessage(stamp, "across", 6));
  ASSERT_ACL(aclprofRangeStart(stamp, &range));
  std::thread([&] { EXPECT_ACL(aclprofRangeStop(range)); }).join();
  aclprofDestroyStamp(stamp);
  ASSERT_ACL(aclrtSynchronizeStream(stream_));
  profile.end();
  const auto marks = lines("host/marks.jsonl");
  ASSERT_EQ(marks.size(), 5u);
  const auto outer = named(marks, "outer"), inner = named(marks, "inner"), across = named(marks, "across");
  ASSERT_EQ(outer.size(), 1u);
  ASSERT_EQ(inner.size(), 2u);
  ASSERT_EQ(across.size(), 1u);
  for (const Json& one : inner) {
    EXPECT_LE(number(outer[0], "start_ns"), number(one, "start_ns"));
    EXPECT_LE(number(one, "end_ns"), number(outer[0], "end_ns"));
  }
  EXPECT_NE(number(across[0], "thread"), number(outer[0], "thread"));
  const auto on_stream = named(marks, "\"quoted\" \\ \n \xef\xbf\xbd end");
  ASSERT_EQ(on_stream.size(), 1u);
  EXPECT_EQ(number(on_stream[0], "stream"), stream_id_);
  const auto kernels = named(lines("device_0/tasks.jsonl"), "aclnnTest");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_GE(number(on_stream[0], "start_ns"), number(kernels[0], "end_ns"));  // when the stream reaches it
}

TEST_F(ProfRecords, MarksAreRecordedAlone) {
  Profile profile(*this, ACL_PROF_MSPROFTX);
  ASSERT_ACL(aclprofMarkEx("alone", 5, stream_));
  copy();
  profile.end();
  EXPECT_EQ(named(lines("host/marks.jsonl"), "alone").size(), 1u);
  EXPECT_TRUE(lines("device_0/tasks.jsonl").empty());
  EXPECT_TRUE(lines("host/calls.jsonl").empty());
}

TEST_F(ProfRecords, MarksWithoutAProfileSucceed) {
  EXPECT_ACL(aclprofMarkEx("x", 1, stream_));
  void* const stamp = aclprofCreateStamp();
  EXPECT_ACL(aclprofSetStampTraceMessage(stamp, "x", 1));
  EXPECT_ACL(aclprofMark(stamp));
  EXPECT_ACL(aclprofPush(stamp));
  EXPECT_ACL(aclprofPop());
  aclprofDestroyStamp(stamp);
}

TEST_F(ProfRecords, StepsEndWhenTheStreamReachesThem) {
  Profile profile(*this, kAll);
  aclprofStepInfo* const step = aclprofCreateStepInfo();
  for (int i = 0; i < 2; ++i) {
    ASSERT_ACL(aclprofGetStepTimestamp(step, ACL_STEP_START, stream_));
    ASSERT_ACL(launch(stream_, kernel("aclnnTest", Task::kLargeCost, 2ms)));
    ASSERT_ACL(aclprofGetStepTimestamp(step, ACL_STEP_END, stream_));
  }
  aclprofDestroyStepInfo(step);  // while tasks still use it
  ASSERT_ACL(aclrtSynchronizeStream(stream_));
  profile.end();
  const auto steps = lines("host/steps.jsonl");
  ASSERT_EQ(steps.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(number(steps[i], "number"), i + 1);
    EXPECT_GE(number(steps[i], "end_ns") - number(steps[i], "start_ns"), 1e6);
  }
}

TEST_F(ProfRecords, ThreadsRecordAllTheirTasks) {
  constexpr int kThreads = 4, kTasks = 2000;
  Profile profile(*this, ACL_PROF_TASK_TIME);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      EXPECT_ACL(aclrtSetDevice(0));
      Stream stream = make_stream();
      for (int task = 0; task < kTasks; ++task) EXPECT_ACL(launch(stream, kernel("aclnnTest", Task::kSmallCost)));
      EXPECT_ACL(aclrtSynchronizeStream(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  profile.end();
  const auto kernels = named(lines("device_0/tasks.jsonl"), "aclnnTest");
  EXPECT_EQ(kernels.size(), size_t{kThreads * kTasks});
  std::set<double> correlations, of_threads;
  for (const Json& one : kernels) {
    correlations.insert(number(one, "correlation"));
    of_threads.insert(number(one, "thread"));
  }
  EXPECT_EQ(correlations.size(), kernels.size());
  EXPECT_EQ(of_threads.size(), size_t{kThreads});
}

TEST_F(ProfRecords, ReplaysOfAGraphAreRecorded) {
  REQUIRE_SOFTNPU();
  Profile profile(*this, kAll);
  ASSERT_ACL(aclmdlRICaptureBegin(stream_, kGlobal));
  ASSERT_ACL(launch(stream_, kernel("aclnnTest", Task::kSmallCost)));
  ASSERT_ACL(aclprofMarkEx("captured", 8, stream_));
  aclmdlRI captured = nullptr;
  ASSERT_ACL(aclmdlRICaptureEnd(stream_, &captured));
  Graph graph(captured);
  for (int i = 0; i < 3; ++i) ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream_));
  ASSERT_ACL(aclrtSynchronizeStream(stream_));
  graph = Graph();
  profile.end();
  EXPECT_EQ(named(lines("device_0/tasks.jsonl"), "aclnnTest").size(), 3u);
  EXPECT_EQ(named(lines("host/marks.jsonl"), "captured").size(), 3u);
}

TEST_F(ProfRecords, ASkippedTaskCountsAsUnfinished) {
  REQUIRE_SOFTNPU();
  Profile profile(*this, ACL_PROF_TASK_TIME);
  Gate gate(stream_);
  ASSERT_ACL(launch(stream_, failing_task("aclnnFails")));
  ASSERT_ACL(launch(stream_, kernel("aclnnTest")));
  gate.open();
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream_));
  profile.end();
  EXPECT_TRUE(named(lines("device_0/tasks.jsonl"), "aclnnTest").empty());
  EXPECT_EQ(number(lines("host/end.json").at(0), "unfinished"), 1);
}

TEST_F(ProfRecords, TwoDevicesAreRecordedAtTheSameTime) {
  uint32_t present = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&present));
  if (present < 2) GTEST_SKIP() << "needs two devices";
  aclprofConfig *first = config(ACL_PROF_TASK_TIME, 0), *second = config(ACL_PROF_TASK_TIME, 1);
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  ASSERT_ACL(aclprofStart(first));
  ASSERT_ACL(aclprofStart(second));
  copy();
  ASSERT_ACL(aclprofStop(first));
  ASSERT_ACL(aclprofStop(second));
  ASSERT_ACL(aclprofFinalize());
  size_t copies = 0;
  for (const auto& result : results()) {
    copies += named(lines_of(result / "device_0/tasks.jsonl"), "aclrtMemcpyAsync").size();
    EXPECT_TRUE(lines_of(result / "device_1/tasks.jsonl").empty());
  }
  EXPECT_EQ(results().size(), 2u);
  EXPECT_EQ(copies, 1u);
  EXPECT_ACL(aclprofDestroyConfig(first));
  EXPECT_ACL(aclprofDestroyConfig(second));
}

TEST_F(ProfRecords, ALimitOfStorageIsKept) {
  aclprofConfig* const created = config(ACL_PROF_TASK_TIME);
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  ASSERT_ACL(aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "1MB", 3));
  ASSERT_ACL(aclprofStart(created));
  for (int i = 0; i < 8; ++i) {
    for (int task = 0; task < 2000; ++task) ASSERT_ACL(launch(stream_, kernel("aclnnTest", Task::kSmallCost)));
    std::this_thread::sleep_for(120ms);
  }
  ASSERT_ACL(aclrtSynchronizeStream(stream_));
  ASSERT_ACL(aclprofStop(created));
  ASSERT_ACL(aclprofFinalize());
  EXPECT_ACL(aclprofDestroyConfig(created));
  EXPECT_LE(std::filesystem::file_size(results().back() / "device_0/tasks.jsonl"), 1000000u);
  const size_t kept = named(lines("device_0/tasks.jsonl"), "aclnnTest").size();
  EXPECT_EQ(kept + size_t(number(lines("host/end.json").at(0), "dropped")), 16000u);
  EXPECT_LT(kept, 16000u);
}

class ChildKilled : public ProfFixture {};

TEST_F(ChildKilled, Records) {
  const char* const path = std::getenv("PROF_TEST_PATH");
  aclprofConfig* const created = config(ACL_PROF_TASK_TIME);
  ASSERT_ACL(aclprofInit(path, strlen(path)));
  ASSERT_ACL(aclprofStart(created));
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, kernel("aclnnTest")));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  const auto is_written = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (read_file(entry.path() / "device_0/tasks.jsonl").find("aclnnTest") != std::string::npos) return true;
    }
    return false;
  };
  ASSERT_TRUE(eventually(is_written));
  kill(getpid(), SIGKILL);
}

TEST_F(ProfRecords, AKilledProcessLeavesItsRecords) {
  const Child child = run_child("ChildKilled.Records", {"PROF_TEST_PATH=" + folder()});
  EXPECT_EQ(child.exit_code, -SIGKILL) << child.output;
  EXPECT_EQ(named(lines("device_0/tasks.jsonl"), "aclnnTest").size(), 1u);
  EXPECT_TRUE(lines("host/end.json").empty());
}

TEST_F(ProfRecords, AForkedChildDoesNotEndTheProfileOfItsParent) {
  aclprofConfig* const created = config(ACL_PROF_TASK_TIME);
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  ASSERT_ACL(aclprofStart(created));
  std::this_thread::sleep_for(20ms);  // until the thread of the recording waits
  const pid_t child = fork();
  if (child == 0) {
    _exit(aclprofStop(created) == ACL_ERROR_PROF_NOT_RUN && aclprofFinalize() == ACL_ERROR_PROF_NOT_RUN ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  copy();
  ASSERT_ACL(aclprofStop(created));
  ASSERT_ACL(aclprofFinalize());
  EXPECT_ACL(aclprofDestroyConfig(created));
  EXPECT_EQ(named(lines("device_0/tasks.jsonl"), "aclrtMemcpyAsync").size(), 1u);
}

TEST_F(ProfRecords, VisitedRecordsAreFreed) {
  REQUIRE_SOFTNPU();
  auto* const get = reinterpret_cast<decltype(&softnpuProfiler)>(dlsym(RTLD_DEFAULT, "softnpuProfiler"));
  const SoftnpuProfiler* const profiler = get(SOFTNPU_PROFILER_VERSION);
  const int64_t first = profiler->start(SOFTNPU_RECORD_TASKS);
  size_t count = 0;
  const SoftnpuRecordVisitor visitor{&count, [](void* context, const SoftnpuTaskRecord*) { ++*static_cast<size_t*>(context); },
                                     nullptr, nullptr};
  constexpr size_t kTasks = 10000;
  int64_t second = 0;
  for (size_t i = 0; i < kTasks; ++i) {
    ASSERT_ACL(launch(stream_, kernel("aclnnTest", Task::kSmallCost)));
    if (i % 700 == 0) profiler->read(first, &visitor);
    if (i == kTasks / 2) second = profiler->start(SOFTNPU_RECORD_TASKS);
  }
  ASSERT_ACL(aclrtSynchronizeStream(stream_));
  SoftnpuRecordTotals totals{};
  EXPECT_TRUE(profiler->stop(first, &visitor, &totals));
  EXPECT_EQ(count, kTasks);
  EXPECT_EQ(totals.dropped, 0u);
  count = 0;
  EXPECT_TRUE(profiler->stop(second, &visitor, &totals));
  EXPECT_EQ(count, kTasks / 2 - 1);
}

TEST_F(ProfRecords, LibascendclPassesTheFunctionsOn) {
  void* const library = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  auto* const init = reinterpret_cast<decltype(&aclprofInit)>(dlsym(library, "aclprofInit"));
  ASSERT_NE(init, nullptr);
  ASSERT_NE(init, &aclprofInit);
  ASSERT_ACL(init(folder().c_str(), folder().size()));
  EXPECT_ACL_ERROR(ACL_ERROR_REPEAT_INITIALIZE, aclprofInit(folder().c_str(), folder().size()));
  EXPECT_ACL(aclprofFinalize());
}

}  // namespace
}  // namespace softnpu::test
