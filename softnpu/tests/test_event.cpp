// One test per sentence of runtime/stream/event.h, and of the event functions. The first three fail on simple devices.
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

TEST_F(EventTest, IsPendingWhileTheLastTaskBeforeItRuns) {
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

TEST_F(EventTest, WaiterWaitsForTheRecordThatWasNewestWhenItCalled) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate first(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  Flag passed = signal_when_run(consumer);

  Gate second(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));  // moves the record behind `second`

  EXPECT_FALSE(passed.within(20ms)) << "the waiter did not wait at all";
  first.open();
  EXPECT_TRUE(passed.within(kPatience)) << "the waiter waited for the later record";
}

TEST_F(EventTest, RecordedTwiceIsReachedWithTheSecondRecord) {
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

TEST_F(EventTest, DeviceNumbersNullEventsAndPrioritiesAreChecked) {
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

TEST_F(EventTest, WaitDoesNotCoverWorkAfterTheRecord) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  Gate gate(producer);
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  EXPECT_TRUE(signal_when_run(consumer).within(kPatience)) << "the consumer waited for work after the record";
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
  EXPECT_FALSE(passed.within(20ms)) << "destroying the event released its waiter";
  gate.open();
  EXPECT_TRUE(passed.within(kPatience)) << "destroying the event left its waiter waiting";
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
  Stream next = make_stream();  // may get the same slot
  Gate gate(next);
  EXPECT_EQ(query(event), kReached) << "work of a new stream made an old event pending";
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(event, kPatienceMs));
}

TEST_F(EventTest, SynchronizeWithTimeoutLeavesTheEventPending) {
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

TEST_F(EventTest, SynchronizeReturnsAFailureBeforeTheRecordOnce) {
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

TEST_F(EventTest, SynchronizeDoesNotReturnAFailureAfterTheRecord) {
  REQUIRE_SOFTNPU();
  Stream stream = make_stream();
  Event event = make_event();
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  EXPECT_ACL(aclrtSynchronizeEvent(event));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
}

TEST_F(EventTest, IsReachedAfterASkippedTask) {
  REQUIRE_SOFTNPU();
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event(ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC);
  ASSERT_ACL(launch(producer, failing_task("aclnnBroken")));
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  EXPECT_TRUE(eventually([&] { return query(event) == kReached; })) << "a failed task blocks the event for ever";
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(producer));
  aclrtSynchronizeStream(consumer);
}

TEST_F(EventTest, StreamThatWaitsForAFailedStreamFails) {
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
    EXPECT_FALSE(was_used) << "a task ran though its input was not computed";
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

// --- plain events -------------------------------------------------------------------------------------------------------

TEST_F(EventTest, PlainEventTellsWhetherItsWaitersAreDone) {
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

TEST_F(EventTest, PlainEventAnswersAclrtQueryEvent) {
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

TEST_F(EventTest, ResetForgetsTheRecordAndKeepsTheWaiters) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_plain_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  Flag passed = signal_when_run(consumer);
  ASSERT_ACL(aclrtResetEvent(event, consumer));
  EXPECT_FALSE(passed.within(20ms)) << "reset released a waiter";
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

TEST_F(EventTest, ExtendedEventsRefuseFunctionsOfPlainEvents) {
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
  Event next = make_plain_event();  // may get the same slot
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(consumer));
  auto status = ACL_EVENT_WAIT_STATUS_RESERVED;
  ASSERT_ACL(aclrtQueryEventWaitStatus(next, &status));
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
  EXPECT_TRUE(signal_when_run(consumer).within(kPatience)) << "the stream cannot be used after a time-out";
}

TEST_F(EventTest, ExecuteTimeoutIsReportedBack) {
  EXPECT_ACL(aclrtSetOpExecuteTimeOut(547));
  uint64_t actual = 0;
  EXPECT_ACL(aclrtSetOpExecuteTimeOutV2(5'000'000, &actual));
  EXPECT_GE(actual, 5'000'000u);
}

// --- refused calls ------------------------------------------------------------------------------------------------------

TEST_F(EventTest, TimeoutsBelowMinusOneAreRefused) {
  Event event = make_event();
  EXPECT_REFUSED(aclrtSynchronizeEventWithTimeout(event, -2));
}

TEST_F(EventTest, WaitingForAnEventIsRefusedInAHostCallback) {
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
