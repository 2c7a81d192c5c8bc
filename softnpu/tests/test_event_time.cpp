// One test per sentence about time of runtime/stream/event.h: elapsed time and timestamps.
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class EventTimeTest : public AclFixture {
 protected:
  static constexpr uint32_t kTimed = ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC;

  // Measures the time since its construction.
  class Stopwatch {
   public:
    double milliseconds() const { return std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }

   private:
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin_ = Clock::now();
  };
};

TEST_F(EventTimeTest, ElapsedTimeIsTheTimeBetweenTheRecordsInMilliseconds) {
  Stream stream = make_stream();
  Event start = make_event(kTimed), end = make_event(kTimed);
  const Stopwatch watch;
  ASSERT_ACL(aclrtRecordEvent(start, stream));
  ASSERT_ACL(run_on(stream, [] { std::this_thread::sleep_for(30ms); }));
  ASSERT_ACL(aclrtRecordEvent(end, stream));
  ASSERT_ACL(aclrtSynchronizeEvent(end));
  float elapsed = -1;
  ASSERT_ACL(aclrtEventElapsedTime(&elapsed, start, end));
  EXPECT_GE(elapsed, 29.0);
  EXPECT_LE(elapsed, watch.milliseconds() + 1);
}

TEST_F(EventTimeTest, TimestampIsInMicrosecondsAndGrows) {
  Stream stream = make_stream();
  Event start = make_event(kTimed), end = make_event(kTimed);
  const Stopwatch watch;
  ASSERT_ACL(aclrtRecordEvent(start, stream));
  ASSERT_ACL(run_on(stream, [] { std::this_thread::sleep_for(30ms); }));
  ASSERT_ACL(aclrtRecordEvent(end, stream));
  ASSERT_ACL(aclrtSynchronizeEvent(end));
  uint64_t first = 0, second = 0;
  ASSERT_ACL(aclrtEventGetTimestamp(start, &first));
  ASSERT_ACL(aclrtEventGetTimestamp(end, &second));
  EXPECT_GE(second - first, 29'000u);
  EXPECT_LE(double(second - first), 1000 * (watch.milliseconds() + 1));
}

TEST_F(EventTimeTest, TimestampIsThatOfTheNewestRecord) {
  Stream stream = make_stream();
  Event fixed = make_event(kTimed), moved = make_event(kTimed);
  ASSERT_ACL(aclrtRecordEvent(moved, stream));
  ASSERT_ACL(aclrtRecordEvent(fixed, stream));
  ASSERT_ACL(run_on(stream, [] { std::this_thread::sleep_for(5ms); }));
  ASSERT_ACL(aclrtRecordEvent(moved, stream));
  ASSERT_ACL(aclrtSynchronizeEvent(moved));
  float elapsed = -1;
  ASSERT_ACL(aclrtEventElapsedTime(&elapsed, fixed, moved));
  EXPECT_GE(elapsed, 4.0f) << "the time is that of an older record";
}

// With SOFTNPU_LAUNCH=sync a record waits for its timestamp. Meanwhile another thread launches a task after it.
class ChildRecord : public EventTimeTest {};

TEST_F(ChildRecord, IsReachedBeforeALaterTaskOfAnotherThread) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  Stream stream = make_stream();
  Event event = make_event(kTimed);
  const Flag entered, opened, recording, held;
  const auto in_thread = [context](auto function) {
    return std::thread([=] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      function();
    });
  };
  std::thread gate = in_thread([&, handle = stream.get()] {
    EXPECT_ACL(run_on(handle, [=] {
      entered.set();
      EXPECT_TRUE(opened.within(kPatience));
    }));
  });
  ASSERT_TRUE(entered.within(kPatience));
  std::thread recorder = in_thread([&, mark = event.get(), handle = stream.get()] {
    recording.set();
    EXPECT_ACL(aclrtRecordEvent(mark, handle));
  });
  ASSERT_TRUE(recording.within(kPatience));
  std::this_thread::sleep_for(50ms);  // so that it waits; where the pause is too short the test passes without checking
  const Flag last;
  std::thread other = in_thread([&, handle = stream.get()] {
    last.set();
    EXPECT_ACL(run_on(handle, [=] { EXPECT_TRUE(held.within(kPatience)); }));
  });
  ASSERT_TRUE(last.within(kPatience));
  std::this_thread::sleep_for(50ms);
  opened.set();
  gate.join();
  recorder.join();
  uint64_t time = 0;
  EXPECT_ACL(aclrtEventGetTimestamp(event, &time));
  auto status = aclrtEventRecordedStatus(-1);
  EXPECT_ACL(aclrtQueryEventStatus(event, &status));
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE) << "the record is after the task of another thread";
  held.set();
  other.join();
}

TEST_F(EventTimeTest, RecordComesBeforeLaterTasksOfOtherThreads) {
  EXPECT_CHILD_PASSES("ChildRecord.*", {"SOFTNPU_LAUNCH=sync"});
}

TEST_F(EventTimeTest, PendingEventHasNoTimeYet) {
  Stream stream = make_stream();
  Event start = make_event(kTimed), end = make_event(kTimed);
  ASSERT_ACL(aclrtRecordEvent(start, stream));
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(end, stream));
  float elapsed = 0;
  uint64_t timestamp = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_NOT_COMPLETE, aclrtEventElapsedTime(&elapsed, start, end));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_NOT_COMPLETE, aclrtEventGetTimestamp(end, &timestamp));
}

TEST_F(EventTimeTest, RecordingAgainMakesTheOldTimeUnavailable) {
  Stream stream = make_stream();
  Event event = make_event(kTimed);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  ASSERT_ACL(aclrtSynchronizeEvent(event));
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  uint64_t timestamp = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_NOT_COMPLETE, aclrtEventGetTimestamp(event, &timestamp));
}

TEST_F(EventTimeTest, EventWithoutTimingOrRecordHasNoTime) {
  Stream stream = make_stream();
  Event timed = make_event(kTimed), untimed = make_event(ACL_EVENT_SYNC), unrecorded = make_event(kTimed);
  ASSERT_ACL(aclrtRecordEvent(timed, stream));
  ASSERT_ACL(aclrtRecordEvent(untimed, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  float elapsed = 0;
  uint64_t timestamp = 0;
  for (const Event* event : {&untimed, &unrecorded}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&elapsed, timed, *event));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&elapsed, *event, timed));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(*event, &timestamp));
  }
}

}  // namespace
}  // namespace softnpu::test
