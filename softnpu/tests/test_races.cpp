// The race check (runtime/checks/races.h): which tasks are ordered. Settings are read once per process, so that the tests run in
// child processes, once for each launch mode: the mode changes the order of execution, not the races.
#include <atomic>
#include <functional>

#include "testing/races_fixture.h"

namespace softnpu::test {
namespace {

TEST_F(ChildRaces, TwoWritersRace) {
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

TEST_F(ChildRaces, AReaderAndAWriterRace) {
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

TEST_F(ChildRaces, TwoReadersDoNotRace) {
  read(first);
  read(second);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, CapturedTasksAreCheckedAtEachReplay) {
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
    EXPECT_EQ(reports(), "") << "captured tasks were checked though they did not run";
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, first));
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, second));
    EXPECT_EQ(reports() == "", is_ordered);
    read(first);
    EXPECT_NE(reports(), "") << "the tasks of a replay were not checked";
    EXPECT_ACL(aclrtSynchronizeDevice());
    EXPECT_ACL(aclmdlRIDestroy(graph));
  }
}

TEST_F(ChildRaces, AWriterRacesWithEveryReaderSinceTheLastWrite) {
  Stream third = make_stream();
  read(first);
  read(second);
  read(third);
  write(first);
  EXPECT_EQ(count_of(reports(), "\n"), 2u);
}

TEST_F(ChildRaces, TasksOfOneStreamDoNotRace) {
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
  EXPECT_EQ(count_of(reports(), "\n"), 1u) << "the event ordered both directions";
}

TEST_F(ChildRaces, EventsOrderThreeStreamsInARow) {
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

TEST_F(ChildRaces, AWaitForAReachedEventOrdersStreams) {
  const Event event = make_event();
  std::atomic<bool> is_done = false;
  write(first);
  ASSERT_ACL(launch(first, {.run = [&](char*) { return is_done = true, ACL_SUCCESS; }, .cost = Task::kSmallCost}));
  ASSERT_ACL(aclrtRecordEvent(event, first));
  ASSERT_TRUE(eventually([&] { return is_done.load(); }));  // polled: a waiting call would order the streams
  ASSERT_ACL(aclrtStreamWaitEvent(second, event));
  write(second);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, AWaitForAnotherEventOrdersNothing) {
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

TEST_F(ChildRaces, AHostWaitOrdersStreams) {
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

TEST_F(ChildRaces, AHostFunctionOrdersStreams) {
  write(first);
  ASSERT_TRUE(signal_when_run(first).within(kPatience));
  write(second);
  EXPECT_EQ(reports(), "");
}

// The check cannot know which tasks a value orders.
TEST_F(ChildRaces, AStreamThatWaitsForAValueIsNotChecked) {
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
  EXPECT_EQ(count_of(reports(), "\n"), 1u) << "the stream is not checked after the wait";
}

TEST_F(ChildRaces, SixtyFourStreamsThatJoinDoNotRace) {
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

TEST_F(ChildRaces, DestroyedStreamsDoNotRace) {
  for (int round = 0; round < 200; ++round) {
    const Stream stream = make_stream();
    write(stream);
  }
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, AbortedTasksDoNotRace) {
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

class ChildRaceFails : public ChildRaces {};

TEST_F(ChildRaceFails, TheSecondLaunchIsRefused) {
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
  EXPECT_EQ(download(buffer, kBytes), Bytes(kBytes, 1)) << "the refused fill ran";
  ASSERT_ACL(aclrtStreamWaitEvent(second, event));
  EXPECT_ACL(aclrtMemsetAsync(buffer, kBytes, 2, kBytes, second));
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaceFails, AHostCopyIsRefused) {
  EXPECT_ACL(aclrtMemsetAsync(buffer, kBytes, 1, kBytes, first));
  uint8_t byte = 7;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_UNJOINED, aclrtMemcpy(&byte, 1, buffer, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 7);
}

TEST_F(ChildRaceFails, AFreeReportsTheRaceAndFrees) {
  void* const block = make_device_buffer(kBytes).release();
  launch_touch(kReader, first, block, kBytes);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_UNJOINED, aclrtFree(block));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(block));
}

TEST(ChildRacesOff, CannotBeQueried) {
  char reply[16];
  EXPECT_EQ(find_function<decltype(softnpuControl)>("softnpuControl")("races", reply, sizeof reply), ACL_ERROR_INVALID_PARAM);
  EXPECT_RECENT_ERROR("SOFTNPU_RACE_CHECK=report");
}

class RacesTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_SOFTNPU(); }
};

TEST_F(RacesTest, AreFoundInEveryLaunchMode) {
  for (const std::string mode : {"hybrid", "queue", "shuffle"}) {
    // In this mode two threads run the tasks that race.
    if (!kRacesOnMemory && mode == "queue") continue;
    EXPECT_CHILD_PASSES("ChildRaces.*", {"SOFTNPU_RACE_CHECK=report", "SOFTNPU_LAUNCH=" + mode});
  }
}

TEST_F(RacesTest, AreReportedOnStderr) {
  const Child child = run_child("ChildRaces.TwoWritersRace", {"SOFTNPU_RACE_CHECK=1"});
  EXPECT_TRUE(child.passed());
  EXPECT_EQ(count_of(child.output, "[WARNING] softnpu: race: writer on stream "), 1u) << child.output;
}

TEST_F(RacesTest, FailTheCallThatMakesThem) {
  EXPECT_CHILD_PASSES("ChildRaceFails.*", {"SOFTNPU_RACE_CHECK=fail"});
  EXPECT_CHILD_PASSES("ChildRaceFails.*", {"SOFTNPU_RACE_CHECK=2", "SOFTNPU_LAUNCH=shuffle"});
}

TEST_F(RacesTest, CannotBeQueriedWhileTheCheckIsOff) {
  EXPECT_CHILD_PASSES("ChildRacesOff.CannotBeQueried", {"SOFTNPU_RACE_CHECK=off"});
}

}  // namespace
}  // namespace softnpu::test
