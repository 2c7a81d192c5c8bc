// The race check (runtime/checks/races.h). Settings are read once, so everything here runs in processes of its own: with each way
// to launch, because what is a race does not depend on what runs first.
#include <dlfcn.h>

#include <algorithm>
#include <regex>

#include "runtime/softnpu.h"
#include "testing/fuzz_world.h"

namespace softnpu::test {
namespace {

struct Touch {
  const uint8_t* address;
  size_t bytes;
  uint32_t flags;
};

constexpr SoftnpuTaskKind touching(const char* name) {
  return {.name = name,
          .run = [](void*, char*) { return aclError(ACL_SUCCESS); },
          .release = nullptr,
          .ready = nullptr,
          .flags = 0,
          .visit =
              [](const void* payload, SoftnpuAccessVisitor visitor, void* context) {
                const auto& touch = *static_cast<const Touch*>(payload);
                visitor(context, touch.address, touch.bytes, touch.flags);
              }};
}
constexpr SoftnpuTaskKind kReader = touching("reader");
constexpr SoftnpuTaskKind kWriter = touching("writer");

template <typename Function>
Function* find_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

size_t count_of(const std::string& text, const std::string& words) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++count;
  return count;
}

::testing::AssertionResult says(const std::string& report, const std::string& pattern) {
  if (std::regex_search(report, std::regex(pattern))) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << report << "' does not match '" << pattern << "'";
}

std::string id_of(aclrtStream stream) {
  int32_t id = -1;
  EXPECT_ACL(aclrtStreamGetId(stream, &id));
  return "stream " + std::to_string(id);
}

class ChildRaces : public AclFixture {
 protected:
  static constexpr size_t kBytes = 4096;

  void SetUp() override {
    AclFixture::SetUp();
    first = make_stream();
    second = make_stream();
    buffer = make_device_buffer(kBytes);
  }
  void TearDown() override {
    EXPECT_ACL(aclrtSynchronizeDevice());
    buffer = {};
    first = {};
    second = {};
    AclFixture::TearDown();
  }

  static void launch_touch(const SoftnpuTaskKind& kind, aclrtStream stream, void* memory, size_t bytes) {
    const Touch touch{static_cast<const uint8_t*>(memory) + driver()->alias_offset, bytes,
                      uint32_t(&kind == &kWriter ? SOFTNPU_ACCESS_WRITES : 0)};
    ASSERT_ACL(driver()->launch(stream, &kind, &touch, sizeof touch, Task::kSmallCost));
  }
  void read(aclrtStream stream, ptrdiff_t offset = 0, size_t bytes = kBytes) {
    launch_touch(kReader, stream, at(buffer, offset), bytes);
  }
  void write(aclrtStream stream, ptrdiff_t offset = 0, size_t bytes = kBytes) {
    launch_touch(kWriter, stream, at(buffer, offset), bytes);
  }

  // The reports since the last call.
  static std::string reports() {
    std::string reply(64 << 10, '\0');
    EXPECT_ACL(find_function<decltype(softnpuControl)>("softnpuControl")("races", reply.data(), reply.size()));
    return reply.c_str();
  }

  Stream first;
  Stream second;
  DeviceBuffer buffer;
};

TEST_F(ChildRaces, TwoWritersAreOne) {
  write(first);
  write(second, 100, 200);
  const std::string report = reports();
  EXPECT_EQ(count_of(report, "\n"), 1u) << report;
  const std::string base = testing::PrintToString(static_cast<void*>(buffer));
  for (const std::string& part : {"writer on " + id_of(first) + " (task ", "writer on " + id_of(second) + " (task ",
                                  std::string("writes 200 bytes at "), "allocation " + base + " of 4096 bytes on device 0"}) {
    EXPECT_EQ(count_of(report, part), 1u) << part << "\n" << report;
  }
}

TEST_F(ChildRaces, AReaderAndAWriterAreOne) {
  read(first);
  write(second);
  EXPECT_TRUE(says(
      reports(), "writer on " + id_of(second) + " .task \\d+. writes .* that reader on " + id_of(first) + " .task \\d+. reads"));
  EXPECT_ACL(aclrtSynchronizeDevice());
  write(second);
  read(first);
  EXPECT_TRUE(says(
      reports(), "reader on " + id_of(first) + " .task \\d+. reads .* that writer on " + id_of(second) + " .task \\d+. writes"));
}

TEST_F(ChildRaces, ReadersAreNone) {
  read(first);
  read(second);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, CapturedTasksAreJudgedWithEachReplay) {
  Event fork = make_event(), join = make_event();
  for (const bool is_ordered : {true, false}) {
    ASSERT_ACL(aclmdlRICaptureBegin(first, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    ASSERT_ACL(aclrtRecordEvent(fork, first));
    ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
    write(first);
    if (is_ordered) {
      ASSERT_ACL(aclrtRecordEvent(fork, first));
      ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
    }
    write(second);
    ASSERT_ACL(aclrtRecordEvent(join, second));
    ASSERT_ACL(aclrtStreamWaitEvent(first, join));
    write(first);
    aclmdlRI graph = nullptr;
    ASSERT_ACL(aclmdlRICaptureEnd(first, &graph));
    EXPECT_EQ(reports(), "") << "captured tasks were judged though they did not run";
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, first));
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, second));
    EXPECT_EQ(reports() == "", is_ordered);
    read(first);
    EXPECT_NE(reports(), "") << "the work of a replay was not seen";
    EXPECT_ACL(aclrtSynchronizeDevice());
    EXPECT_ACL(aclmdlRIDestroy(graph));
  }
}

TEST_F(ChildRaces, EveryReaderSinceTheWriteCounts) {
  Stream third = make_stream();
  read(first);
  read(second);
  read(third);
  write(first);
  EXPECT_EQ(count_of(reports(), "\n"), 2u);
}

TEST_F(ChildRaces, OneStreamIsInOrder) {
  write(first);
  read(first);
  write(first);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, AnEventOrdersStreams) {
  const Event event = make_event();
  write(first);
  ASSERT_ACL(aclrtRecordEvent(event, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, event));
  read(second);
  write(second);
  EXPECT_EQ(reports(), "");
  write(first);
  EXPECT_EQ(count_of(reports(), "\n"), 1u) << "it orders one way only";
}

TEST_F(ChildRaces, AnEventOrdersWhatCameBeforeItsStreamToo) {
  Stream third = make_stream();
  const Event one = make_event();
  const Event two = make_event(ACL_EVENT_TIME_LINE);
  write(first);
  ASSERT_ACL(aclrtRecordEvent(one, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, one));
  ASSERT_ACL(aclrtRecordEvent(two, second));
  ASSERT_ACL(aclrtStreamWaitEvent(third, two));
  write(third);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, AWaitThatIsOverAlreadyOrdersStreams) {
  const Event event = make_event();
  std::atomic<bool> is_done = false;
  write(first);
  ASSERT_ACL(launch(first, {.run = [&](char*) { return is_done = true, ACL_SUCCESS; }, .cost = Task::kSmallCost}));
  ASSERT_ACL(aclrtRecordEvent(event, first));
  ASSERT_TRUE(eventually([&] { return is_done.load(); }));  // and not by a call that would teach the host
  ASSERT_ACL(aclrtStreamWaitEvent(second, event));
  write(second);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, AWaitForAnotherEventIsNone) {
  const Event right = make_event();
  const Event wrong = make_event();
  ASSERT_ACL(aclrtRecordEvent(wrong, first));
  write(first);
  ASSERT_ACL(aclrtRecordEvent(right, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, wrong));
  write(second);
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
}

TEST_F(ChildRaces, AnEventRecordedTooEarlyOrdersNothing) {
  const Event event = make_event();
  ASSERT_ACL(aclrtRecordEvent(event, first));
  write(first);
  ASSERT_ACL(aclrtStreamWaitEvent(second, event));
  read(second);
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
}

TEST_F(ChildRaces, AnEventThatWasResetOrdersNothing) {
  aclrtEvent event = nullptr;
  ASSERT_ACL(aclrtCreateEvent(&event));
  write(first);
  ASSERT_ACL(aclrtRecordEvent(event, first));
  ASSERT_ACL(aclrtResetEvent(event, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, event));
  read(second);
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
  ASSERT_ACL(aclrtDestroyEvent(event));
}

TEST_F(ChildRaces, WhatTheHostWaitedForIsOver) {
  const Event event = make_event();
  const std::function<void()> waits[] = {
      [&] { EXPECT_ACL(aclrtSynchronizeStream(first)); },
      [&] { EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(first, kPatienceMs)); },
      [&] { EXPECT_ACL(aclrtSynchronizeDevice()); },
      [&] {
        EXPECT_ACL(aclrtRecordEvent(event, first));
        EXPECT_ACL(aclrtSynchronizeEvent(event));
      },
      [&] {
        EXPECT_TRUE(eventually([&] {
          aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
          EXPECT_ACL(aclrtStreamQuery(first, &status));
          return status == ACL_STREAM_STATUS_COMPLETE;
        }));
      },
      [&] {
        EXPECT_ACL(aclrtRecordEvent(event, first));
        EXPECT_TRUE(eventually([&] {
          aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
          EXPECT_ACL(aclrtQueryEventStatus(event, &status));
          return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
        }));
      },
  };
  for (const auto& wait : waits) {
    write(first);
    wait();
    write(second);
    EXPECT_EQ(reports(), "") << "wait " << &wait - waits;
    ASSERT_ACL(aclrtSynchronizeStream(second));
  }
}

TEST_F(ChildRaces, WhatAHostFunctionSawIsOver) {
  write(first);
  ASSERT_TRUE(signal_when_run(first).within(kPatience));
  write(second);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, AHostCopyBesideATaskIsOne) {
  write(first);
  download(buffer, 64);
  const std::string report = reports();
  EXPECT_EQ(count_of(report, "aclrtMemcpy on the host reads 64 bytes"), 1u) << report;
  EXPECT_EQ(count_of(report, "writer on " + id_of(first)), 1u) << report;
  EXPECT_ACL(aclrtMemset(buffer, 64, 0, 64));
  EXPECT_EQ(count_of(reports(), "aclrtMemset on the host writes"), 1u);
  ASSERT_ACL(aclrtSynchronizeStream(first));
  download(buffer, 64);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, ATaskBehindAHostCopyIsNone) {
  upload(buffer, pattern(64));
  write(first);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, FreeingWhatAStreamStillUsesIsOne) {
  void* const block = make_device_buffer(kBytes).release();
  launch_touch(kReader, first, block, 10);
  ASSERT_ACL(aclrtFree(block));
  const std::string report = reports();
  EXPECT_EQ(count_of(report, "aclrtFree on the host frees 10 bytes"), 1u) << report;
  EXPECT_EQ(count_of(report, "reader on " + id_of(first)), 1u) << report;
}

TEST_F(ChildRaces, NewMemoryHasNoPast) {
  for (int round = 0; round < 20; ++round) {
    const DeviceBuffer block = make_device_buffer(kBytes);
    launch_touch(kWriter, round % 2 == 0 ? first : second, block, kBytes);
    ASSERT_ACL(aclrtSynchronizeDevice());
  }
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, NeighboursAreNone) {
  write(first, 0, 100);
  write(second, 100, 100);
  read(first, 200, 1);
  write(second, 201, 1);
  EXPECT_EQ(reports(), "");
  write(first, 199, 1);
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
}

TEST_F(ChildRaces, ColumnsOfAMatrixAreNone) {
  const PinnedBuffer host = make_pinned_buffer(kBytes);
  const auto copy_columns = [&](aclrtStream stream, ptrdiff_t column, size_t width) {
    EXPECT_ACL(aclrtMemcpy2dAsync(at(buffer, column), 64, at(host, column), 64, width, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  };
  copy_columns(first, 0, 32);
  copy_columns(second, 32, 32);
  EXPECT_EQ(reports(), "");
  copy_columns(first, 24, 16);
  EXPECT_EQ(count_of(reports(), "writes 8 bytes"), 1u);
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaces, CopiesAndFillsAreTouches) {
  const DeviceBuffer other = make_device_buffer(kBytes);
  EXPECT_ACL(aclrtMemcpyAsync(other, 100, buffer, 100, ACL_MEMCPY_DEVICE_TO_DEVICE, first));
  EXPECT_ACL(aclrtMemsetAsync(buffer, 100, 0, 100, second));
  EXPECT_TRUE(says(reports(), "aclrtMemcpyAsync on " + id_of(first) + " .task \\d+. reads"));
  EXPECT_ACL(aclrtReduceAsync(other, buffer, 100, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, second, nullptr));
  EXPECT_TRUE(says(reports(), "aclrtReduceAsync on " + id_of(second) + " .task \\d+. writes"));
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaces, PinnedMemoryIsWatched) {
  const PinnedBuffer host = make_pinned_buffer(kBytes);
  EXPECT_ACL(aclrtMemcpyAsync(host, 100, buffer, 100, ACL_MEMCPY_DEVICE_TO_HOST, first));
  EXPECT_ACL(aclrtMemcpyAsync(at(buffer, 200), 100, host, 100, ACL_MEMCPY_HOST_TO_DEVICE, second));
  EXPECT_EQ(count_of(reports(), "host memory"), 1u);
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaces, ACopyWithPageableMemoryIsOverWhenItReturns) {
  Bytes host(kBytes);
  EXPECT_ACL(aclrtMemcpyAsync(buffer, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, first));
  write(second);
  EXPECT_EQ(reports(), "");
}

// What a value orders is the client's secret.
TEST_F(ChildRaces, AStreamBehindAValueIsNotJudged) {
  const DeviceBuffer word = make_device_buffer(64);
  ASSERT_ACL(aclrtMemset(word, 64, 0, 64));
  ASSERT_ACL(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_GEQ, second));
  read(second);
  write(first);
  ASSERT_ACL(aclrtValueWrite(word, 1, 0, first));
  ASSERT_ACL(aclrtSynchronizeStream(second));
  read(second);
  EXPECT_EQ(reports(), "");
  write(first);
  EXPECT_EQ(count_of(reports(), "\n"), 1u) << "it is judged again";
}

TEST_F(ChildRaces, SixtyFourStreamsThatJoinAreNone) {
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (int i = 0; i < 64; ++i) {
    streams.push_back(make_stream());
    events.push_back(make_event());
  }
  const Event start = make_event();
  for (int round = 0; round < 3; ++round) {
    write(first);
    ASSERT_ACL(aclrtRecordEvent(start, first));
    for (size_t i = 0; i < streams.size(); ++i) {
      ASSERT_ACL(aclrtStreamWaitEvent(streams[i], start));
      write(streams[i], ptrdiff_t(i) * 64, 64);
      ASSERT_ACL(aclrtRecordEvent(events[i], streams[i]));
      const bool forgets_one = round == 2 && i == 40;
      if (forgets_one) continue;
      ASSERT_ACL(aclrtStreamWaitEvent(first, events[i]));
    }
  }
  write(first, 39 * 64, 64);
  write(first, 41 * 64, 64);
  EXPECT_EQ(reports(), "");
  write(first, 40 * 64, 64);
  EXPECT_EQ(count_of(reports(), "writer on " + id_of(streams[40])), 1u);
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaces, StreamsThatComeAndGoAreNone) {
  for (int round = 0; round < 200; ++round) {
    const Stream stream = make_stream();
    write(stream);
  }
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, WhatAnAbortThrewAwayIsNone) {
  {
    const Gate gate(first);
    ASSERT_TRUE(gate.entered().within(kPatience));
    write(first);
    gate.open();
    ASSERT_ACL(aclrtStreamAbort(first));
  }
  write(second);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, TheSamePairIsReportedOnce) {
  for (int round = 0; round < 10; ++round) {
    write(first);
    write(second);
  }
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, ReportsNameTheOriginOfBothTasks) {
  const auto set_origin = find_function<decltype(softnpuSetOrigin)>("softnpuSetOrigin");
  static const char* line;
  set_origin([](char* text, size_t bytes) { return std::snprintf(text, bytes, "%s", line); }, SOFTNPU_ORIGIN_RACES);
  line = "train.py:12 in step";
  write(first);
  line = "train.py:15 in load";
  write(second);
  set_origin(nullptr, 0);
  const std::string report = reports();
  EXPECT_EQ(count_of(report, ", train.py:12 in step)"), 1u) << report;
  EXPECT_EQ(count_of(report, ", train.py:15 in load)"), 1u) << report;
}

TEST_F(ChildRaces, ReportsChangeNoResults) {
  const Bytes contents = pattern(kBytes);
  const PinnedBuffer host = pinned_copy_of(contents);
  EXPECT_ACL(aclrtMemcpyAsync(buffer, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, first));
  EXPECT_ACL(aclrtMemcpyAsync(buffer, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, second));
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(download(buffer, kBytes), contents);
}

class ChildRaceFails : public ChildRaces {};

TEST_F(ChildRaceFails, TheSecondLaunch) {
  const Event event = make_event();
  EXPECT_ACL(aclrtMemsetAsync(buffer, kBytes, 1, kBytes, first));
  ASSERT_ACL(aclrtRecordEvent(event, first));
  for (int round = 0; round < 2; ++round) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_UNJOINED, aclrtMemsetAsync(buffer, kBytes, 2, kBytes, second));
    const std::string message = recent_error();
    EXPECT_EQ(count_of(message, "aclrtMemsetAsync on " + id_of(first)), 1u) << message;
    EXPECT_EQ(count_of(message, "aclrtMemsetAsync on " + id_of(second)), 1u) << message;
  }
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(download(buffer, kBytes), Bytes(kBytes, 1)) << "what failed has not run";
  ASSERT_ACL(aclrtStreamWaitEvent(second, event));
  EXPECT_ACL(aclrtMemsetAsync(buffer, kBytes, 2, kBytes, second));
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaceFails, AHostCopy) {
  EXPECT_ACL(aclrtMemsetAsync(buffer, kBytes, 1, kBytes, first));
  uint8_t byte = 7;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_UNJOINED, aclrtMemcpy(&byte, 1, buffer, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 7);
}

TEST_F(ChildRaceFails, AFreeThatHappensAllTheSame) {
  void* const block = make_device_buffer(kBytes).release();
  launch_touch(kReader, first, block, kBytes);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_UNJOINED, aclrtFree(block));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(block));
}

TEST(ChildRacesOff, CannotBeAskedFor) {
  char reply[16];
  EXPECT_EQ(find_function<decltype(softnpuControl)>("softnpuControl")("races", reply, sizeof reply), ACL_ERROR_INVALID_PARAM);
  EXPECT_RECENT_ERROR("SOFTNPU_RACE_CHECK=report");
}

class RacesTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_SOFTNPU(); }
};

TEST_F(RacesTest, AreFoundWhateverRunsFirst) {
  for (const std::string mode : {"hybrid", "queue", "shuffle"}) {
    // Queued, the tasks that race on memory do so on two threads.
    if (!kRacesOnMemory && mode == "queue") continue;
    EXPECT_CHILD_PASSES("ChildRaces.*", {"SOFTNPU_RACE_CHECK=report", "SOFTNPU_LAUNCH=" + mode});
  }
}

TEST_F(RacesTest, AreReportedOnStderr) {
  const Child child = run_child("ChildRaces.TwoWritersAreOne", {"SOFTNPU_RACE_CHECK=1"});
  EXPECT_TRUE(child.passed());
  EXPECT_EQ(count_of(child.output, "[WARNING] softnpu: race: writer on stream "), 1u) << child.output;
}

TEST_F(RacesTest, FailTheCallThatMakesThem) {
  EXPECT_CHILD_PASSES("ChildRaceFails.*", {"SOFTNPU_RACE_CHECK=fail"});
  EXPECT_CHILD_PASSES("ChildRaceFails.*", {"SOFTNPU_RACE_CHECK=2", "SOFTNPU_LAUNCH=shuffle"});
}

TEST_F(RacesTest, CannotBeAskedForUnlessTheyAreChecked) {
  EXPECT_CHILD_PASSES("ChildRacesOff.CannotBeAskedFor", {"SOFTNPU_RACE_CHECK=off"});
}

}  // namespace
}  // namespace softnpu::test
