// One test per sentence of runtime/stream/stream.h, and of the stream functions.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class StreamTest : public AclFixture {};

aclrtStreamStatus query(aclrtStream stream) {
  auto status = ACL_STREAM_STATUS_RESERVED;
  EXPECT_ACL(aclrtStreamQuery(stream, &status));
  return status;
}

TEST_F(StreamTest, RunsTasksInTheOrderOfTheirLaunch) {
  Stream stream = make_stream();
  std::vector<int> order;
  for (int number = 0; number < 300; ++number) ASSERT_ACL(run_on(stream, [&order, number] { order.push_back(number); }));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  ASSERT_EQ(order.size(), 300u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(StreamTest, DifferentStreamsAreIndependent) {
  Stream held = make_stream(), other = make_stream();
  Gate gate(held);
  EXPECT_TRUE(signal_when_run(other).within(kPatience));
  EXPECT_ACL(aclrtSynchronizeStream(other));
  EXPECT_EQ(query(held), ACL_STREAM_STATUS_NOT_READY);
}

TEST_F(StreamTest, NullIsTheDefaultStreamOfTheCurrentContext) {
  Gate gate(nullptr);
  EXPECT_EQ(query(nullptr), ACL_STREAM_STATUS_NOT_READY);
  {
    aclrtContext primary = nullptr;
    ASSERT_ACL(aclrtGetCurrentContext(&primary));
    Context context = make_context();
    EXPECT_EQ(query(nullptr), ACL_STREAM_STATUS_COMPLETE) << "two contexts share a default stream";
    ASSERT_ACL(aclrtSetCurrentContext(primary));
  }
  gate.open();
  EXPECT_ACL(aclrtSynchronizeStream(nullptr));
}

// --- creation -----------------------------------------------------------------------------------------------------------

TEST_F(StreamTest, EveryFlagAndPriorityMakesAStream) {
  for (const uint32_t flags : {0u, ACL_STREAM_FAST_LAUNCH, ACL_STREAM_FAST_SYNC, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC,
                               ACL_STREAM_PERSISTENT, ACL_STREAM_HUGE}) {
    SCOPED_TRACE("flags " + std::to_string(flags));
    Stream stream = make_stream(0, flags);
    EXPECT_TRUE(signal_when_run(stream).within(kPatience));
  }
  for (uint32_t priority = 0; priority <= 7; ++priority) {
    SCOPED_TRACE("priority " + std::to_string(priority));
    Stream stream = make_stream(priority);
    aclrtStreamAttrValue value{};
    EXPECT_ACL(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
    EXPECT_EQ(value.streamPriority, priority);
  }
  aclrtStream plain = nullptr;
  ASSERT_ACL(aclrtCreateStream(&plain));
  EXPECT_TRUE(signal_when_run(Stream(plain)).within(kPatience));
}

TEST_F(StreamTest, UnknownFlagsAndPrioritiesAreRefused) {
  aclrtStream stream = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateStreamWithConfig(&stream, 8, 0));
  EXPECT_RECENT_ERROR("priority 8");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateStreamWithConfig(&stream, 0, 0x80000000u));
  EXPECT_RECENT_ERROR("flag");
  EXPECT_EQ(stream, nullptr);
}

TEST_F(StreamTest, LiveStreamsHaveDifferentNumbers) {
  std::vector<Stream> streams;
  std::set<int32_t> numbers;
  int32_t number = -1;
  ASSERT_ACL(aclrtStreamGetId(nullptr, &number));
  numbers.insert(number);
  for (int count = 0; count < 40; ++count) {
    streams.push_back(make_stream());
    ASSERT_ACL(aclrtStreamGetId(streams.back(), &number));
    numbers.insert(number);
  }
  EXPECT_EQ(numbers.size(), 41u);
}

TEST_F(StreamTest, PriorityReachesTheThreadThatRunsTheWork) {
  REQUIRE_SOFTNPU();
  Stream low = make_stream(7), high = make_stream(0);
  int nice_of_low = -100, nice_of_high = -100;
  const auto own_nice = [] { return getpriority(PRIO_PROCESS, id_t(gettid())); };
  ASSERT_ACL(run_on(low, [&] { nice_of_low = own_nice(); }));
  ASSERT_ACL(run_on(high, [&] { nice_of_high = own_nice(); }));
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_GT(nice_of_low, nice_of_high);
}

// --- waiting ------------------------------------------------------------------------------------------------------------

TEST_F(StreamTest, QueryTellsWhetherAllTasksAreDone) {
  Stream stream = make_stream();
  EXPECT_EQ(query(stream), ACL_STREAM_STATUS_COMPLETE);
  Gate gate(stream);
  EXPECT_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(query(stream), ACL_STREAM_STATUS_COMPLETE);
}

TEST_F(StreamTest, SynchronizeReturnsWhenEverythingIsDone) {
  Stream stream = make_stream();
  std::atomic<bool> done{false};
  ASSERT_ACL(run_on(stream, [&] {
    std::this_thread::sleep_for(20ms);
    done = true;
  }));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_TRUE(done);
}

TEST_F(StreamTest, SynchronizeWithTimeoutGivesUpAndTheWorkGoesOn) {
  Stream stream = make_stream();
  Gate gate(stream);
  Flag reached = signal_when_run(stream);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 10));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 0));
  gate.open();
  EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
  EXPECT_TRUE(reached.is_set());
  EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(stream, -1));
  EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(stream, 0));
}

TEST_F(StreamTest, TimeoutsBelowMinusOneAreRefused) {
  Stream stream = make_stream();
  EXPECT_REFUSED(aclrtSynchronizeStreamWithTimeout(stream, -2));
  EXPECT_REFUSED(aclrtSynchronizeDeviceWithTimeout(-2));
}

TEST_F(StreamTest, ManyThreadsMayWaitForOneStream) {
  Stream stream = make_stream();
  Gate gate(stream);
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (int count = 0; count < 4; ++count) {
    threads.emplace_back([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      EXPECT_ACL(aclrtSynchronizeStream(stream));
      ++woken;
    });
  }
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(woken, 0);
  gate.open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken, 4);
}

TEST_F(StreamTest, WaitingForTheDeviceIsRefusedInAHostCallback) {
  Stream stream = make_stream(), other = make_stream();
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::vector<aclError> codes;
  std::string message;
  ASSERT_ACL(run_on(stream, [&] {
    codes.push_back(aclrtSetCurrentContext(context));
    codes.push_back(aclrtSynchronizeStream(stream));
    codes.push_back(aclrtSynchronizeStreamWithTimeout(other, 10));
    codes.push_back(aclrtSynchronizeDevice());
    codes.push_back(aclrtDestroyStream(stream));
    codes.push_back(aclrtResetDevice(0));
    codes.push_back(aclrtStreamAbort(stream));
    message = recent_error();
  }));
  ASSERT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
  ASSERT_EQ(codes.size(), 7u);
  EXPECT_EQ(codes[0], ACL_SUCCESS);
  for (size_t call = 1; call < codes.size(); ++call) {
    EXPECT_EQ(codes[call], ACL_ERROR_RT_FEATURE_NOT_SUPPORT) << "call " << call << " gives " << code_text(codes[call]);
  }
  EXPECT_NE(message.find("callback"), std::string::npos) << message;
}

// --- destruction --------------------------------------------------------------------------------------------------------

TEST_F(StreamTest, DestroyWaitsForPendingWork) {
  Stream stream = make_stream();
  std::atomic<int> done{0};
  for (int count = 0; count < 5; ++count) {
    ASSERT_ACL(run_on(stream, [&] {
      std::this_thread::sleep_for(4ms);
      ++done;
    }));
  }
  ASSERT_ACL(aclrtDestroyStream(stream.release()));
  EXPECT_EQ(done, 5);
}

TEST_F(StreamTest, DestroyForceDropsPendingWorkAndDoesNotWait) {
  Stream stream = make_stream();
  Gate gate(stream);
  Flag pending = signal_when_run(stream);
  ASSERT_TRUE(gate.entered().within(kPatience));
  aclrtStream handle = stream.release();
  ASSERT_ACL(aclrtDestroyStreamForce(handle));
  EXPECT_FALSE(gate.left().is_set()) << "the call waited for the running task";
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(handle));
  gate.open();
  EXPECT_FALSE(pending.within(20ms)) << "dropped work ran";
}

TEST_F(StreamTest, StreamsCanBeCreatedWhileADestroyedOneRuns) {
  Stream stream = make_stream();
  Gate gate(stream);
  ASSERT_TRUE(gate.entered().within(kPatience));
  ASSERT_ACL(aclrtDestroyStreamForce(stream.release()));
  std::vector<Stream> others;
  for (int count = 0; count < 4; ++count) others.push_back(make_stream());
  for (const Stream& other : others) EXPECT_TRUE(signal_when_run(other).within(kPatience)) << "work waits for a destroyed stream";
}

TEST_F(StreamTest, DestroyReturnsAFailureThatWasNotReportedAndDestroysTheStream) {
  REQUIRE_SOFTNPU();
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  aclrtStream handle = stream.release();
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtDestroyStream(handle));
  EXPECT_RECENT_ERROR("aclnnBroken");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(handle));
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST_F(StreamTest, DestroyingAStreamReleasesWaitersForItsEvents) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_TRUE(gate.entered().within(kPatience));
  ASSERT_ACL(run_on(producer, [] {}));
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  Flag passed = signal_when_run(consumer);
  ASSERT_ACL(aclrtDestroyStreamForce(producer.release()));
  gate.open();
  EXPECT_TRUE(passed.within(kPatience)) << "the consumer waits for work that was dropped";
}

TEST_F(StreamTest, OneOfSeveralThreadsDestroysAStream) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  for (int round = 0; round < 20; ++round) {
    aclrtStream stream = make_stream().release();
    std::atomic<int> successes{0};
    std::vector<std::thread> threads;
    for (int count = 0; count < 3; ++count) {
      threads.emplace_back([&] {
        EXPECT_ACL(aclrtSetCurrentContext(context));
        successes += aclrtDestroyStream(stream) == ACL_SUCCESS;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(successes, 1);
  }
}

// --- abort --------------------------------------------------------------------------------------------------------------

// The test cannot see whether the waiter is already in its call, and whether the abort comes before the gate opens. It tries
// several rounds with longer and longer pauses.
TEST_F(StreamTest, AbortDropsPendingWorkAndEndsWaits) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  milliseconds pause = 10ms;
  EXPECT_TRUE(eventually([&] {
    Stream stream = make_stream();
    Gate gate(stream);
    Flag pending = signal_when_run(stream);
    EXPECT_TRUE(gate.entered().within(kPatience));
    Flag waiting;
    aclError waited = ACL_SUCCESS, aborted = ACL_ERROR_FAILURE;
    std::thread waiter([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      waiting.set();
      waited = aclrtSynchronizeStream(stream);
    });
    EXPECT_TRUE(waiting.within(kPatience));
    std::this_thread::sleep_for(pause);
    std::thread aborter([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      aborted = aclrtStreamAbort(stream);
    });
    std::this_thread::sleep_for(pause);
    gate.open();
    aborter.join();
    waiter.join();
    EXPECT_EQ(aborted, ACL_SUCCESS) << code_text(aborted);
    EXPECT_TRUE(waited == ACL_SUCCESS || waited == ACL_ERROR_RT_STREAM_ABORT) << code_text(waited);
    const bool was_dropped = !pending.is_set();
    EXPECT_TRUE(signal_when_run(stream).within(kPatience)) << "the stream cannot be used after an abort";
    EXPECT_ACL(aclrtSynchronizeStream(stream));
    pause *= 2;
    return HasFailure() || (was_dropped && waited == ACL_ERROR_RT_STREAM_ABORT);
  })) << "aborted work ran, or the waiting call did not return the abort";
}

TEST_F(StreamTest, AbortEndsAWaitForAnEvent) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  Flag behind = signal_when_run(consumer);
  EXPECT_ACL(aclrtStreamAbort(consumer));
  EXPECT_EQ(query(consumer), ACL_STREAM_STATUS_COMPLETE);
  EXPECT_FALSE(behind.is_set());
}

TEST_F(StreamTest, AbortOfAnIdleStreamDoesNothing) {
  Stream stream = make_stream();
  EXPECT_ACL(aclrtStreamAbort(stream));
  EXPECT_ACL(aclrtStreamAbort(nullptr));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_TRUE(signal_when_run(stream).within(kPatience));
}

// --- attributes ---------------------------------------------------------------------------------------------------------

TEST_F(StreamTest, AttributesBelongToTheStream) {
  Stream stream = make_stream(), untouched = make_stream();
  aclrtStreamAttrValue value{};
  value.failureMode = ACL_STOP_ON_FAILURE;
  ASSERT_ACL(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
  value = {};
  value.overflowSwitch = 1;
  ASSERT_ACL(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
  value = {};
  value.userCustomTag = 77;
  ASSERT_ACL(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
  value = {};
  value.cacheOpInfoSwitch = 1;
  ASSERT_ACL(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));

  const auto get = [](aclrtStream from, aclrtStreamAttr attribute) {
    aclrtStreamAttrValue found{};
    EXPECT_ACL(aclrtGetStreamAttribute(from, attribute, &found));
    return found;
  };
  EXPECT_EQ(get(stream, ACL_STREAM_ATTR_FAILURE_MODE).failureMode, ACL_STOP_ON_FAILURE);
  EXPECT_EQ(get(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK).overflowSwitch, 1u);
  EXPECT_EQ(get(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG).userCustomTag, 77u);
  EXPECT_EQ(get(stream, ACL_STREAM_ATTR_CACHE_OP_INFO).cacheOpInfoSwitch, 1u);
  EXPECT_EQ(get(untouched, ACL_STREAM_ATTR_FAILURE_MODE).failureMode, ACL_CONTINUE_ON_FAILURE);
  EXPECT_EQ(get(untouched, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK).overflowSwitch, 0u);
  EXPECT_EQ(get(untouched, ACL_STREAM_ATTR_USER_CUSTOM_TAG).userCustomTag, 0u);
}

TEST_F(StreamTest, FailureModeAndOverflowSwitchHaveTheirOwnFunctions) {
  Stream stream = make_stream();
  aclrtStreamAttrValue value{};
  uint32_t flag = 9;
  EXPECT_ACL(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  EXPECT_ACL(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
  EXPECT_EQ(value.failureMode, ACL_STOP_ON_FAILURE);
  EXPECT_ACL(aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE));
  EXPECT_ACL(aclrtSetStreamOverflowSwitch(stream, 1));
  EXPECT_ACL(aclrtGetStreamOverflowSwitch(stream, &flag));
  EXPECT_EQ(flag, 1u);
  EXPECT_ACL(aclrtSetStreamOverflowSwitch(stream, 0));
  EXPECT_ACL(aclrtGetStreamOverflowSwitch(stream, &flag));
  EXPECT_EQ(flag, 0u);
}

TEST_F(StreamTest, AttributesOfANewStreamAreNotThoseOfADestroyedOne) {
  Stream stream = make_stream();
  EXPECT_ACL(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  EXPECT_ACL(aclrtSetStreamOverflowSwitch(stream, 1));
  ASSERT_ACL(aclrtDestroyStream(stream.release()));
  Stream next = make_stream();  // may get the same slot
  aclrtStreamAttrValue value{};
  uint32_t flag = 9;
  EXPECT_ACL(aclrtGetStreamAttribute(next, ACL_STREAM_ATTR_FAILURE_MODE, &value));
  EXPECT_EQ(value.failureMode, ACL_CONTINUE_ON_FAILURE);
  EXPECT_ACL(aclrtGetStreamOverflowSwitch(next, &flag));
  EXPECT_EQ(flag, 0u);
}

TEST_F(StreamTest, WrongAttributesAreRefused) {
  Stream stream = make_stream();
  aclrtStreamAttrValue value{};
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamFailureMode(stream, 2));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamOverflowSwitch(stream, 2));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamAttribute(stream, aclrtStreamAttr(99), &value));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtGetStreamAttribute(stream, aclrtStreamAttr(0), &value));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
  value.failureMode = 7;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
}

// --- core limits --------------------------------------------------------------------------------------------------------

TEST_F(StreamTest, CoreLimitsStartAsThoseOfTheDeviceAndCanBeReset) {
  Stream stream = make_stream();
  for (const auto kind : {ACL_RT_DEV_RES_CUBE_CORE, ACL_RT_DEV_RES_VECTOR_CORE}) {
    uint32_t of_device = 0, of_stream = 0;
    ASSERT_ACL(aclrtGetDeviceResLimit(0, kind, &of_device));
    ASSERT_ACL(aclrtGetStreamResLimit(stream, kind, &of_stream));
    EXPECT_EQ(of_stream, of_device);
    ASSERT_ACL(aclrtSetStreamResLimit(stream, kind, 1));
    ASSERT_ACL(aclrtGetStreamResLimit(stream, kind, &of_stream));
    EXPECT_EQ(of_stream, 1u);
    ASSERT_ACL(aclrtResetStreamResLimit(stream));
    ASSERT_ACL(aclrtGetStreamResLimit(stream, kind, &of_stream));
    EXPECT_EQ(of_stream, of_device);
  }
}

TEST_F(StreamTest, ThreadUsesTheLimitsOfAStreamUntilItUnsetsThem) {
  Stream stream = make_stream(), other = make_stream();
  uint32_t of_device = 0, in_thread = 0;
  ASSERT_ACL(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &of_device));
  ASSERT_ACL(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 1));
  ASSERT_ACL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &in_thread));
  EXPECT_EQ(in_thread, of_device);
  ASSERT_ACL(aclrtUseStreamResInCurrentThread(stream));
  ASSERT_ACL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &in_thread));
  EXPECT_EQ(in_thread, 1u);
  EXPECT_REFUSED(aclrtUnuseStreamResInCurrentThread(other));
  ASSERT_ACL(aclrtUnuseStreamResInCurrentThread(stream));
  ASSERT_ACL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &in_thread));
  EXPECT_EQ(in_thread, of_device);

  ASSERT_ACL(aclrtUseStreamResInCurrentThread(stream));
  ASSERT_ACL(aclrtDestroyStream(stream.release()));
  ASSERT_ACL(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &in_thread));
  EXPECT_EQ(in_thread, of_device) << "the limits of a destroyed stream are used";
}

TEST_F(StreamTest, WrongCoreLimitsAreRefused) {
  Stream stream = make_stream();
  uint32_t value = 0;
  EXPECT_REFUSED(aclrtSetStreamResLimit(stream, aclrtDevResLimitType(2), 1));
  EXPECT_REFUSED(aclrtGetStreamResLimit(stream, aclrtDevResLimitType(-1), &value));
  EXPECT_REFUSED(aclrtGetResInCurrentThread(aclrtDevResLimitType(2), &value));
  EXPECT_REFUSED(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 0));
  EXPECT_REFUSED(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 1u << 30));
}

}  // namespace
}  // namespace softnpu::test
