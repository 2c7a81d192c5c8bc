// One test per sentence of runtime/stream/callback.h.
#include <pthread.h>

#include <atomic>
#include <memory>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class HostFunctionTest : public AclFixture {};

TEST_F(HostFunctionTest, RunsOnAThreadOfTheStream) {
  Stream stream = make_stream();
  std::thread::id first, second;
  ASSERT_ACL(run_on(stream, [&] { first = std::this_thread::get_id(); }));
  ASSERT_ACL(run_on(stream, [&] { second = std::this_thread::get_id(); }));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(first, second);
}

TEST_F(HostFunctionTest, GetsItsArgument) {
  Stream stream = make_stream();
  int value = 0;
  ASSERT_ACL(aclrtLaunchHostFunc(
      stream, [](void* argument) { *static_cast<int*>(argument) = 5; }, &value));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(value, 5);
  EXPECT_ACL(aclrtLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(HostFunctionTest, HoldsLaterTasksUntilItReturns) {
  Stream stream = make_stream();
  DeviceBuffer buffer = make_device_buffer(64);
  PinnedBuffer host = make_pinned_buffer(64);
  static_cast<char*>(host.get())[0] = 0;
  ASSERT_ACL(aclrtMemset(buffer, 64, 0, 64));
  Gate gate(stream);
  ASSERT_ACL(aclrtMemsetAsync(buffer, 64, 7, 64, stream));
  ASSERT_TRUE(gate.entered().within(kPatience));
  ASSERT_ACL(aclrtMemcpy(host, 64, buffer, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(static_cast<char*>(host.get())[0], 0) << "a fill ran before an earlier callback had returned";
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  ASSERT_ACL(aclrtMemcpy(host, 64, buffer, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(static_cast<char*>(host.get())[0], 7);
}

TEST_F(HostFunctionTest, RunsOnTheDefaultStream) { EXPECT_TRUE(signal_when_run(nullptr).within(kPatience)); }

TEST_F(HostFunctionTest, NullFunctionIsRefused) {
  Stream stream = make_stream();
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtLaunchHostFunc(stream, nullptr, nullptr));
  EXPECT_RECENT_ERROR("'fn'");
}

TEST_F(HostFunctionTest, FunctionsOfTwoStreamsRunAtTheSameTime) {
  Stream first = make_stream(), second = make_stream();
  Flag from_second;
  bool met = false;
  ASSERT_ACL(run_on(first, [&] { met = from_second.within(kPatience); }));
  ASSERT_ACL(run_on(second, [&] { from_second.set(); }));
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_TRUE(met) << "the callbacks of two streams ran one after the other";
}

// --- reports ------------------------------------------------------------------------------------------------------------

// A thread that processes the reports of streams until it is destroyed.
class ReportThread {
 public:
  explicit ReportThread(std::initializer_list<aclrtStream> streams) : streams_(streams) {
    EXPECT_ACL(aclrtGetCurrentContext(&context_));
    thread_ = std::thread([this] {
      EXPECT_ACL(aclrtSetCurrentContext(context_));
      for (const aclrtStream stream : streams_) EXPECT_ACL(aclrtSubscribeReport(number(), stream));
      subscribed_.set();
      while (!stop_) {
        const aclError code = aclrtProcessReport(20);
        if (code != ACL_SUCCESS && code != ACL_ERROR_RT_REPORT_TIMEOUT) ADD_FAILURE() << code_text(code) << recent_error();
      }
      for (const aclrtStream stream : streams_) EXPECT_ACL(aclrtUnSubscribeReport(number(), stream));
    });
    EXPECT_TRUE(subscribed_.within(kPatience));
  }
  ~ReportThread() {
    stop_ = true;
    thread_.join();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  static uint64_t number() { return uint64_t(pthread_self()); }

  const std::vector<aclrtStream> streams_;
  aclrtContext context_ = nullptr;
  std::atomic<bool> stop_{false};
  Flag subscribed_;
  std::thread thread_;
};

class ReportTest : public AclFixture {
 protected:
  static uint64_t this_thread() { return uint64_t(pthread_self()); }
  static void do_nothing(void*) {}
};

struct Called {
  std::atomic<int> count{0};
  std::thread::id on;
  Flag flag;
};
void note_call(void* argument) {
  auto* called = static_cast<Called*>(argument);
  called->on = std::this_thread::get_id();
  ++called->count;
  called->flag.set();
}

TEST_F(ReportTest, CallbackRunsOnTheThreadThatSubscribed) {
  Called called;
  Stream stream = make_stream();
  ReportThread thread({stream});
  ASSERT_ACL(aclrtLaunchCallback(note_call, &called, ACL_CALLBACK_NO_BLOCK, stream));
  ASSERT_TRUE(called.flag.within(kPatience));
  EXPECT_EQ(called.on, thread.id());
}

TEST_F(ReportTest, BlockingCallbackHoldsTheStream) {
  Called called;
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  ASSERT_ACL(aclrtLaunchCallback(note_call, &called, ACL_CALLBACK_BLOCK, stream));
  Flag passed = signal_when_run(stream);
  EXPECT_FALSE(passed.within(20ms)) << "the stream did not wait for the callback";
  EXPECT_ACL(aclrtProcessReport(kPatienceMs));
  EXPECT_EQ(called.count, 1);
  EXPECT_TRUE(passed.within(kPatience));
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
}

TEST_F(ReportTest, NonBlockingCallbackDoesNotHoldTheStream) {
  Called called;
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  ASSERT_ACL(aclrtLaunchCallback(note_call, &called, ACL_CALLBACK_NO_BLOCK, stream));
  EXPECT_TRUE(signal_when_run(stream).within(kPatience));
  EXPECT_EQ(called.count, 0);
  EXPECT_ACL(aclrtProcessReport(kPatienceMs));
  EXPECT_EQ(called.count, 1);
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
}

TEST_F(ReportTest, CallbackIsReportedInTheStreamsOrder) {
  Called called;
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  {
    Gate gate(stream);
    ASSERT_ACL(aclrtLaunchCallback(note_call, &called, ACL_CALLBACK_NO_BLOCK, stream));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(10));
  }
  EXPECT_ACL(aclrtProcessReport(kPatienceMs));
  EXPECT_EQ(called.count, 1);
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
}

TEST_F(ReportTest, OneThreadTakesTheReportsOfSeveralStreams) {
  Called called[2];
  Stream first = make_stream(), second = make_stream();
  ReportThread thread({first, second});
  ASSERT_ACL(aclrtLaunchCallback(note_call, &called[0], ACL_CALLBACK_BLOCK, first));
  ASSERT_ACL(aclrtLaunchCallback(note_call, &called[1], ACL_CALLBACK_BLOCK, second));
  EXPECT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(called[0].count, 1);
  EXPECT_EQ(called[1].count, 1);
}

TEST_F(ReportTest, LaunchNeedsASubscription) {
  Stream stream = make_stream();
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(do_nothing, nullptr, ACL_CALLBACK_BLOCK, stream));
  EXPECT_RECENT_ERROR("aclrtSubscribeReport");
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ReportTest, OneStreamHasOneSubscriber) {
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(this_thread() + 1, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(this_thread() + 1, stream));
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(this_thread(), stream));
}

TEST_F(ReportTest, SubscriptionEndsWithTheStream) {
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  ASSERT_ACL(aclrtDestroyStream(stream.release()));
  Stream next = make_stream();  // may get the same slot
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(do_nothing, nullptr, ACL_CALLBACK_NO_BLOCK, next));
  EXPECT_ACL(aclrtSubscribeReport(this_thread(), next));
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), next));
}

TEST_F(ReportTest, ProcessingNeedsASubscription) {
  EXPECT_ACL_ERROR(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(10));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1)) << "the call waits for a report that cannot come";
}

TEST_F(ReportTest, ProcessingReturnsAfterItsTimeLimit) {
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(5));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(0));
  EXPECT_REFUSED(aclrtProcessReport(-2));
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
}

TEST_F(ReportTest, ProcessingWithoutLimitWaitsForAReport) {
  Called called;
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  ASSERT_ACL(run_on(stream, [] { std::this_thread::sleep_for(10ms); }));
  ASSERT_ACL(aclrtLaunchCallback(note_call, &called, ACL_CALLBACK_BLOCK, stream));
  EXPECT_ACL(aclrtProcessReport(-1));
  EXPECT_EQ(called.count, 1);
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
}

TEST_F(ReportTest, UnsubscribingDropsPendingCallbacksAndReleasesTheStream) {
  Called called;
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  ASSERT_ACL(aclrtLaunchCallback(note_call, &called, ACL_CALLBACK_BLOCK, stream));
  Flag passed = signal_when_run(stream);
  EXPECT_FALSE(passed.within(10ms));
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
  EXPECT_TRUE(passed.within(kPatience)) << "the stream waits for a thread that has unsubscribed";
  EXPECT_EQ(called.count, 0);
}

TEST_F(ReportTest, WaitingForTheDeviceIsRefusedInACallback) {
  struct Attempt {
    aclrtStream stream;
    aclError code = ACL_SUCCESS;
  };
  Stream stream = make_stream();
  Attempt attempt{.stream = stream};
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  ASSERT_ACL(aclrtLaunchCallback(
      [](void* argument) {
        auto* inner = static_cast<Attempt*>(argument);
        inner->code = aclrtSynchronizeStreamWithTimeout(inner->stream, 100);
      },
      &attempt, ACL_CALLBACK_BLOCK, stream));
  EXPECT_ACL(aclrtProcessReport(kPatienceMs));
  EXPECT_EQ(attempt.code, ACL_ERROR_RT_FEATURE_NOT_SUPPORT) << code_text(attempt.code);
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
}

TEST_F(ReportTest, WrongArgumentsAreRefused) {
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSubscribeReport(this_thread(), stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchCallback(do_nothing, nullptr, aclrtCallbackBlockType(2), stream));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtLaunchCallback(nullptr, nullptr, ACL_CALLBACK_BLOCK, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtSubscribeReport(this_thread(), nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtUnSubscribeReport(this_thread(), nullptr));
  EXPECT_ACL(aclrtUnSubscribeReport(this_thread(), stream));
}

}  // namespace
}  // namespace softnpu::test
