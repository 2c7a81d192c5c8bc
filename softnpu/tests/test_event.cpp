// One test per sentence of runtime/stream/event.h, and of the event functions. The first four are what simple devices get wrong.
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class EventTest : public AclFixture {};

aclrtEventRecordedStatus query(aclrtEvent event) {
  auto status = aclrtEventRecordedStatus(-1);
  EXPECT_ACL(aclrtQueryEventStatus(event, &status));
  return status;
}

constexpr auto kReached = ACL_EVENT_RECORDED_STATUS_COMPLETE;
constexpr auto kPending = ACL_EVENT_RECORDED_STATUS_NOT_READY;

Event make_plain_event(uint32_t flags = ACL_EVENT_SYNC) {
  aclrtEvent event = nullptr;
  EXPECT_ACL(aclrtCreateEventWithFlag(&event, flags));
  return Event(event);
}

TEST_F(EventTest, IsPendingWhileTheLastTaskBeforeItStillRuns) {
  Stream stream = make_stream();
  Event event = make_event();
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  ASSERT_TRUE(gate.entered().within(kPatience));

  auto status = ACL_STREAM_STATUS_COMPLETE;
  ASSERT_ACL(aclrtStreamQuery(stream, &status));
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY) << "the stream counts its running task as done";
  EXPECT_EQ(query(event), kPending) << "the event counts the running task as done";

  gate.open();
  ASSERT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_EQ(query(event), kReached);
}

TEST_F(EventTest, WaiterKeepsTheRecordThatWasNewestWhenItCalledWait) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate first(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  Flag passed = signal_when_run(consumer);

  Gate second(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));  // moves the mark behind `second`

  EXPECT_FALSE(passed.within(20ms)) << "the waiter did not wait at all";
  first.open();
  EXPECT_TRUE(passed.within(kPatience)) << "the waiter followed the later record";
}

TEST_F(EventTest, RecordedTwiceIsReachedWithTheSecondRecordOnly) {
  Stream stream = make_stream();
  Event event = make_event();
  Gate first(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  Gate second(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));

  first.open();
  ASSERT_TRUE(second.entered().within(kPatience));
  EXPECT_EQ(query(event), kPending) << "the first record completed the event";
  second.open();
  ASSERT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_EQ(query(event), kReached);
}

TEST_F(EventTest, CodesPrioritiesAndDeviceCountAreReal) {
  uint32_t count = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&count));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(int32_t(count)));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtRecordEvent(nullptr, nullptr));

  int32_t least = -1, greatest = -1;
  ASSERT_ACL(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_LT(greatest, least) << "a smaller number is a higher priority";
  Stream stream = make_stream(uint32_t(least));
  aclrtStreamAttrValue value{};
  ASSERT_ACL(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
  EXPECT_EQ(value.streamPriority, uint32_t(least));
}

TEST_F(EventTest, NeverRecordedCountsAsReached) {
  Event event = make_event();
  Stream stream = make_stream();
  EXPECT_EQ(query(event), kReached);
  EXPECT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_ACL(aclrtStreamWaitEvent(stream, event));
  EXPECT_TRUE(signal_when_run(stream).within(kPatience));
}

TEST_F(EventTest, RecordedOnAnIdleStreamIsReached) {
  Event event = make_event();
  Stream stream = make_stream();
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_EQ(query(event), kReached);
}

TEST_F(EventTest, WaitHoldsTheStreamButNotTheCaller) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  Flag passed = signal_when_run(consumer);
  EXPECT_FALSE(passed.within(20ms)) << "the consumer ran before the producer";
  gate.open();
  EXPECT_TRUE(passed.within(kPatience));
}

TEST_F(EventTest, WaitCoversWorkBeforeTheRecordOnly) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  Gate gate(producer);
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  EXPECT_TRUE(signal_when_run(consumer).within(kPatience)) << "the consumer waited for work behind the record";
}

TEST_F(EventTest, WaitOnTheRecordingStreamItselfDoesNotHang) {
  Stream stream = make_stream();
  Event event = make_event();
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  ASSERT_ACL(aclrtStreamWaitEvent(stream, event));
  Flag passed = signal_when_run(stream);
  gate.open();
  EXPECT_TRUE(passed.within(kPatience));
}

TEST_F(EventTest, WaitsChainThroughStreams) {
  Stream first = make_stream(), second = make_stream(), third = make_stream();
  Event one = make_event(), two = make_event();
  Gate gate(first);
  ASSERT_ACL(aclrtRecordEvent(one, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, one));
  ASSERT_ACL(aclrtRecordEvent(two, second));
  ASSERT_ACL(aclrtStreamWaitEvent(third, two));
  Flag passed = signal_when_run(third);
  EXPECT_FALSE(passed.within(20ms));
  gate.open();
  EXPECT_TRUE(passed.within(kPatience));
  EXPECT_ACL(aclrtSynchronizeStream(third));
}

TEST_F(EventTest, NullStreamIsTheDefaultStream) {
  Event event = make_event();
  Stream other = make_stream();
  Gate gate(nullptr);
  ASSERT_ACL(aclrtRecordEvent(event, nullptr));
  EXPECT_EQ(query(event), kPending);
  gate.open();
  EXPECT_ACL(aclrtSynchronizeEvent(event));

  Gate other_gate(other);
  ASSERT_ACL(aclrtRecordEvent(event, other));
  ASSERT_ACL(aclrtStreamWaitEvent(nullptr, event));
  Flag passed = signal_when_run(nullptr);
  EXPECT_FALSE(passed.within(20ms)) << "the default stream did not wait";
  other_gate.open();
  EXPECT_TRUE(passed.within(kPatience));
}

TEST_F(EventTest, MayBeDestroyedBeforeItIsReached) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  ASSERT_ACL(aclrtDestroyEvent(event.release()));
  Flag passed = signal_when_run(consumer);
  EXPECT_FALSE(passed.within(20ms)) << "destroying the event let its waiter go";
  gate.open();
  EXPECT_TRUE(passed.within(kPatience)) << "destroying the event lost its waiter";
}

TEST_F(EventTest, OutlivesTheStreamItWasRecordedOn) {
  Event event = make_event();
  {
    Stream stream = make_stream();
    ASSERT_ACL(run_on(stream, [] {}));
    ASSERT_ACL(aclrtRecordEvent(event, stream));
  }
  EXPECT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_EQ(query(event), kReached);
  Stream heir = make_stream();  // may live in the same place
  Gate gate(heir);
  EXPECT_EQ(query(event), kReached) << "work of a new stream makes an old event pending";
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(event, kPatienceMs));
}

TEST_F(EventTest, SynchronizeWithTimeoutLeavesTheMarkPending) {
  Stream stream = make_stream();
  Event event = make_event();
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 10));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 0));
  EXPECT_EQ(query(event), kPending);
  gate.open();
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(event, kPatienceMs));
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(event, -1));
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(event, 0));
}

TEST_F(EventTest, SynchronizeReturnsTheFailureBeforeTheMarkOnce) {
  REQUIRE_SOFTNPU();
  Stream stream = make_stream();
  Event event = make_event();
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeEvent(event));
  EXPECT_RECENT_ERROR("aclnnBroken");
  EXPECT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(EventTest, SynchronizeDoesNotReturnAFailureBehindTheMark) {
  REQUIRE_SOFTNPU();
  Stream stream = make_stream();
  Event event = make_event();
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  EXPECT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
}

TEST_F(EventTest, IsReachedBehindASkippedTask) {
  REQUIRE_SOFTNPU();
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event(ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC);
  ASSERT_ACL(launch(producer, failing_task("aclnnBroken")));
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  EXPECT_TRUE(eventually([&] { return query(event) == kReached; })) << "a failure holds those behind it for ever";
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(producer));
  aclrtSynchronizeStream(consumer);
}

TEST_F(EventTest, AStreamThatWaitsForAFailedOneFailsWithIt) {
  REQUIRE_SOFTNPU();
  Stream producer = make_stream(), consumer = make_stream(), bystander = make_stream();
  Event before = make_event(), behind = make_event();
  for (const uint64_t cost : {Task::kSmallCost, Task::kLargeCost}) {
    ASSERT_ACL(aclrtRecordEvent(before, producer));
    Task broken = failing_task("aclnnBroken");
    broken.cost = cost;
    ASSERT_ACL(launch(producer, broken));
    ASSERT_ACL(aclrtRecordEvent(behind, producer));
    ASSERT_ACL(aclrtStreamWaitEvent(bystander, before));
    ASSERT_ACL(aclrtStreamWaitEvent(consumer, behind));
    bool was_used = false;
    ASSERT_ACL(launch(consumer, {.run = [&](char*) {
                        was_used = true;
                        return aclError(ACL_SUCCESS);
                      }}));
    EXPECT_ACL(aclrtSynchronizeStream(bystander));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(consumer));
    EXPECT_RECENT_ERROR("aclnnBroken");
    EXPECT_FALSE(was_used) << "what the failed task did not make was used";
    EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(producer));
    EXPECT_ACL(aclrtSynchronizeStream(consumer));
  }
}

TEST_F(EventTest, CanBeRecordedAndWaitedForFromManyThreads) {
  Stream streams[2] = {make_stream(), make_stream()};
  Event event = make_event();
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      for (int round = 0; round < 200; ++round) {
        EXPECT_ACL(aclrtRecordEvent(event, streams[number % 2]));
        EXPECT_ACL(aclrtStreamWaitEvent(streams[(number + 1) % 2], event));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(query(event), kReached);
}

// --- the plain family -------------------------------------------------------------------------------------------------

TEST_F(EventTest, PlainEventKnowsWhetherItsWaitersAreThrough) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_plain_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));

  auto status = ACL_EVENT_WAIT_STATUS_RESERVED;
  ASSERT_ACL(aclrtQueryEventWaitStatus(event, &status));
  EXPECT_EQ(status, ACL_EVENT_WAIT_STATUS_NOT_READY);
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(consumer));
  ASSERT_ACL(aclrtQueryEventWaitStatus(event, &status));
  EXPECT_EQ(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
}

TEST_F(EventTest, PlainEventAnswersTheOldQuery) {
  Stream stream = make_stream();
  Event event = make_plain_event();
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  auto status = ACL_EVENT_STATUS_RESERVED;
  ASSERT_ACL(aclrtQueryEvent(event, &status));
  EXPECT_EQ(status, ACL_EVENT_STATUS_NOT_READY);
  gate.open();
  ASSERT_ACL(aclrtSynchronizeEvent(event));
  ASSERT_ACL(aclrtQueryEvent(event, &status));
  EXPECT_EQ(status, ACL_EVENT_STATUS_COMPLETE);
}

TEST_F(EventTest, ResetForgetsTheMarkButNotThoseWhoWait) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_plain_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  Flag passed = signal_when_run(consumer);
  ASSERT_ACL(aclrtResetEvent(event, consumer));
  EXPECT_FALSE(passed.within(20ms)) << "reset let a waiter go";
  gate.open();
  EXPECT_TRUE(passed.within(kPatience));
  EXPECT_ACL(aclrtSynchronizeDevice());
  EXPECT_ACL(aclrtRecordEvent(event, producer));
  EXPECT_ACL(aclrtSynchronizeEvent(event));
}

TEST_F(EventTest, ResetNeedsTheSyncFlag) {
  Stream stream = make_stream();
  Event event = make_plain_event(ACL_EVENT_TIME_LINE);
  EXPECT_REFUSED(aclrtResetEvent(event, stream));
}

TEST_F(EventTest, ExtendedEventsRefuseWhatOnlyPlainOnesCanDo) {
  Stream stream = make_stream();
  Event event = make_event();
  auto old_status = ACL_EVENT_STATUS_RESERVED;
  auto wait_status = ACL_EVENT_WAIT_STATUS_RESERVED;
  EXPECT_REFUSED(aclrtResetEvent(event, stream));
  EXPECT_REFUSED(aclrtQueryEvent(event, &old_status));
  EXPECT_REFUSED(aclrtQueryEventWaitStatus(event, &wait_status));
}

TEST_F(EventTest, PlainEventMayBeDestroyedWhileItsWaiterWaits) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_plain_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  ASSERT_ACL(aclrtDestroyEvent(event.release()));
  Event heir = make_plain_event();  // may live in the same place
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(consumer));
  auto status = ACL_EVENT_WAIT_STATUS_RESERVED;
  ASSERT_ACL(aclrtQueryEventWaitStatus(heir, &status));
  EXPECT_EQ(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
}

// --- creation -----------------------------------------------------------------------------------------------------------

TEST_F(EventTest, EveryFlagMakesAnEvent) {
  Stream stream = make_stream();
  for (const uint32_t flags : {ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS, ACL_EVENT_TIME_LINE, ACL_EVENT_EXTERNAL,
                               ACL_EVENT_IPC, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE}) {
    SCOPED_TRACE("flags " + std::to_string(flags));
    Event event = make_event(flags);
    EXPECT_ACL(aclrtRecordEvent(event, stream));
    EXPECT_ACL(aclrtSynchronizeEvent(event));
  }
  for (const uint32_t flags : {ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE, ACL_EVENT_EXTERNAL, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE}) {
    SCOPED_TRACE("plain, flags " + std::to_string(flags));
    Event event = make_plain_event(flags);
    EXPECT_ACL(aclrtRecordEvent(event, stream));
    EXPECT_ACL(aclrtSynchronizeEvent(event));
  }
  aclrtEvent plain = nullptr;
  ASSERT_ACL(aclrtCreateEvent(&plain));
  Event event(plain);
  EXPECT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_ACL(aclrtSynchronizeEvent(event));
}

TEST_F(EventTest, UnknownFlagsAreRefused) {
  aclrtEvent event = nullptr;
  EXPECT_REFUSED(aclrtCreateEventWithFlag(&event, 0x80000000u));
  EXPECT_REFUSED(aclrtCreateEventExWithFlag(&event, 0x80000000u));
  EXPECT_REFUSED(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | 0x1000u));
}

TEST_F(EventTest, LiveEventsHaveDifferentNumbers) {
  Event first = make_event(), second = make_event();
  uint32_t numbers[2] = {};
  ASSERT_ACL(aclrtGetEventId(first, &numbers[0]));
  ASSERT_ACL(aclrtGetEventId(second, &numbers[1]));
  EXPECT_NE(numbers[0], numbers[1]);
}

// --- time ---------------------------------------------------------------------------------------------------------------

class EventTimeTest : public AclFixture {
 protected:
  static constexpr uint32_t kTimed = ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC;

  // The time since it was made.
  class Stopwatch {
   public:
    double milliseconds() const { return std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }

   private:
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin_ = Clock::now();
  };
};

TEST_F(EventTimeTest, ElapsedIsTheTimeBetweenTheMarksInMilliseconds) {
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

TEST_F(EventTimeTest, TimeIsThatOfTheNewestRecord) {
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

// Where launches wait, a record waits for its time stamp, and another thread's task comes behind it meanwhile.
class ChildRecord : public EventTimeTest {};

TEST_F(ChildRecord, IsFollowedByTheTaskOfAnotherThread) {
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
  std::this_thread::sleep_for(50ms);  // until it waits; too short, the test cannot fail
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
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE) << "its mark is behind the task of another thread";
  held.set();
  other.join();
}

TEST_F(EventTimeTest, MarkIsThatOfTheRecordWhateverOtherThreadsLaunch) {
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

TEST_F(EventTimeTest, RecordingAgainMakesAnOldTimeUnavailable) {
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

// --- time-outs ----------------------------------------------------------------------------------------------------------

TEST_F(EventTest, OpWaitTimeoutEndsAWaitOnTheDevice) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtSetOpWaitTimeout(1));
  const aclError waiting = aclrtStreamWaitEvent(consumer, event);
  ASSERT_ACL(aclrtSetOpWaitTimeout(0));
  ASSERT_ACL(waiting);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_WAIT_TIMEOUT, aclrtSynchronizeStreamWithTimeout(consumer, kPatienceMs));
  EXPECT_RECENT_ERROR("aclrtStreamWaitEvent");
  EXPECT_TRUE(signal_when_run(consumer).within(kPatience)) << "the stream is of no use after a time-out";
}

TEST_F(EventTest, ExecuteTimeoutIsReportedBack) {
  EXPECT_ACL(aclrtSetOpExecuteTimeOut(547));
  uint64_t actual = 0;
  EXPECT_ACL(aclrtSetOpExecuteTimeOutV2(5'000'000, &actual));
  EXPECT_GE(actual, 5'000'000u);
}

// --- waiting for memory -------------------------------------------------------------------------------------------------

class ValueTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    buffer_ = make_device_buffer(64);
    set(0);
  }
  void TearDown() override {
    buffer_ = DeviceBuffer();
    AclFixture::TearDown();
  }
  void set(uint64_t value) const { EXPECT_ACL(aclrtMemcpy(buffer_, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE)); }
  uint64_t get() const {
    uint64_t value = ~uint64_t{0};
    EXPECT_ACL(aclrtMemcpy(&value, 8, buffer_, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
  }
  // The stream waits while the word is `before` and goes on when it is `after`.
  void expect_wait(uint32_t condition, uint64_t operand, uint64_t before, uint64_t after) {
    SCOPED_TRACE("condition " + std::to_string(condition));
    set(before);
    Stream stream = make_stream(), writer = make_stream();
    ASSERT_ACL(aclrtValueWait(buffer_, operand, condition, stream));
    Flag passed = signal_when_run(stream);
    EXPECT_FALSE(passed.within(10ms)) << "did not wait";
    ASSERT_ACL(aclrtValueWrite(buffer_, after, 0, writer));
    EXPECT_TRUE(passed.within(kPatience)) << "did not go on";
  }

  DeviceBuffer buffer_;
};

TEST_F(ValueTest, WriteHappensInTheStreamsOrder) {
  Stream stream = make_stream();
  Gate gate(stream);
  ASSERT_ACL(aclrtValueWrite(buffer_, 42, 0, stream));
  EXPECT_EQ(get(), 0u);
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(get(), 42u);
}

TEST_F(ValueTest, WaitsForEveryCondition) {
  expect_wait(ACL_STREAM_WAIT_VALUE_GEQ, 5, 4, 6);
  expect_wait(ACL_STREAM_WAIT_VALUE_EQ, 5, 6, 5);
  expect_wait(ACL_STREAM_WAIT_VALUE_AND, 0b0110, 0b1001, 0b0100);
  expect_wait(ACL_STREAM_WAIT_VALUE_NOR, ~uint64_t{0b0110}, 0b0110, 0b0010);
}

TEST_F(ValueTest, BadArgumentsAreRefused) {
  Stream stream = make_stream();
  uint64_t host = 0;
  auto* bytes = static_cast<std::byte*>(buffer_.get());
  EXPECT_REFUSED(aclrtValueWait(buffer_, 0, 99, stream));
  EXPECT_REFUSED(aclrtValueWait(&host, 0, 0, stream));
  EXPECT_REFUSED(aclrtValueWrite(&host, 0, 0, stream));
  EXPECT_REFUSED(aclrtValueWait(bytes + 1, 0, 0, stream));
  EXPECT_REFUSED(aclrtValueWrite(bytes + 1, 0, 0, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtValueWait(nullptr, 0, 0, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtValueWrite(nullptr, 0, 0, stream));
}

// --- refused ------------------------------------------------------------------------------------------------------------

TEST_F(EventTest, TimeoutsBelowMinusOneAreRefused) {
  Event event = make_event();
  EXPECT_REFUSED(aclrtSynchronizeEventWithTimeout(event, -2));
}

TEST_F(EventTest, HostCallbackMustNotWaitForAnEvent) {
  Stream stream = make_stream(), other = make_stream();
  Event event = make_event();
  Gate gate(other);
  ASSERT_ACL(aclrtRecordEvent(event, other));
  aclError code = ACL_SUCCESS;
  Flag done;
  ASSERT_ACL(run_on(stream, [&, done] {
    code = aclrtSynchronizeEventWithTimeout(event, 100);
    done.set();
  }));
  ASSERT_TRUE(done.within(kPatience));
  EXPECT_EQ(code, ACL_ERROR_RT_FEATURE_NOT_SUPPORT) << code_text(code);
}

}  // namespace
}  // namespace softnpu::test
