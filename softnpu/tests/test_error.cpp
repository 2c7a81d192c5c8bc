// Reports of failures: of a call (error text and last code of the thread) and of a task (once, by the next call that waits).
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

// --- calls --------------------------------------------------------------------------------------------------------------

class ErrorTest : public AclFixture {};

aclError last_error() { return aclrtGetLastError(ACL_RT_THREAD_LEVEL); }

TEST_F(ErrorTest, TextNamesFunctionArgumentAndCode) {
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr));
  const std::string message = recent_error();
  for (const char* word : {"aclrtCreateStream", "stream", "ACL_ERROR_INVALID_PARAM", "100000"}) {
    EXPECT_NE(message.find(word), std::string::npos) << word << " is not in: " << message;
  }
}

TEST_F(ErrorTest, ReadingTheTextClearsIt) {
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr));
  EXPECT_NE(aclGetRecentErrMsg(), nullptr);
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(ErrorTest, TextStaysValidUntilTheNextCall) {
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr));
  const char* message = aclGetRecentErrMsg();
  ASSERT_NE(message, nullptr);
  const std::string before = message;
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtDestroyEvent(nullptr));
  EXPECT_EQ(before, message);
}

TEST_F(ErrorTest, LastCodeIsKeptByPeekAndClearedByGet) {
  EXPECT_EQ(last_error(), ACL_SUCCESS);
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr));
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM);
  EXPECT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(last_error(), ACL_ERROR_INVALID_PARAM) << "a successful call cleared an earlier failure";
  EXPECT_EQ(last_error(), ACL_SUCCESS);
}

TEST_F(ErrorTest, NewestFailureIsTheLastOne) {
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(-1));
  EXPECT_EQ(last_error(), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_RECENT_ERROR("aclrtSetDevice");
}

TEST_F(ErrorTest, TextAndCodeBelongToTheThread) {
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr));
  std::thread([] {
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr) << "the failure of another thread is returned";
    EXPECT_EQ(last_error(), ACL_SUCCESS);
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(-1));
    EXPECT_NE(aclGetRecentErrMsg(), nullptr);
  }).join();
  EXPECT_EQ(last_error(), ACL_ERROR_INVALID_PARAM);
  EXPECT_RECENT_ERROR("aclrtCreateStream");
}

// --- tasks; without gates, because these tests also run with SOFTNPU_LAUNCH=queue and sync -----------------------------

class FailureTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    REQUIRE_SOFTNPU();
  }
  // Shared with the tasks, which may outlive a test that fails.
  using Counter = std::shared_ptr<std::atomic<int>>;
  static Counter make_counter() { return std::make_shared<std::atomic<int>>(0); }
  static Task counting(Counter ran) {
    return {.run = [ran = std::move(ran)](char*) {
      ++*ran;
      return ACL_SUCCESS;
    }};
  }
};

TEST_F(FailureTest, IsReturnedOnceWithTheTasksNameAndReason) {
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken", ACL_ERROR_RT_AICORE_EXCEPTION, "the lights went out")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  const std::string message = recent_error();
  EXPECT_NE(message.find("aclnnBroken"), std::string::npos) << message;
  EXPECT_NE(message.find("the lights went out"), std::string::npos) << message;
  EXPECT_EQ(last_error(), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST_F(FailureTest, FailureOfASmallTaskIsReportedInTheSameWay) {
  Stream stream = make_stream();
  Task task = failing_task("aclnnBroken");
  task.cost = Task::kSmallCost;
  EXPECT_ACL(launch(stream, std::move(task))) << "the launch itself succeeded";
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_RECENT_ERROR("aclnnBroken");
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(FailureTest, WorkAfterItIsSkippedUntilItIsReported) {
  Stream stream = make_stream();
  const Counter ran = make_counter();
  ASSERT_ACL(launch(stream, counting(ran)));
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  for (int count = 0; count < 5; ++count) ASSERT_ACL(launch(stream, counting(ran)));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_EQ(*ran, 1) << "work after a failure ran";
  ASSERT_ACL(launch(stream, counting(ran)));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(*ran, 2) << "the stream did not recover";
}

TEST_F(FailureTest, FirstOfSeveralIsReturned) {
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, failing_task("aclnnFirst")));
  ASSERT_ACL(launch(stream, failing_task("aclnnSecond")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_RECENT_ERROR("aclnnFirst");
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(FailureTest, OtherStreamsAreNotAffected) {
  Stream broken = make_stream(), sound = make_stream();
  const Counter ran = make_counter();
  ASSERT_ACL(launch(broken, failing_task("aclnnBroken")));
  ASSERT_ACL(launch(sound, counting(ran)));
  EXPECT_ACL(aclrtSynchronizeStream(sound));
  EXPECT_EQ(*ran, 1);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(broken));
}

TEST_F(FailureTest, SynchronizeDeviceReturnsEachFailureOnce) {
  Stream first = make_stream(), second = make_stream();
  ASSERT_ACL(launch(first, failing_task("aclnnFirst")));
  ASSERT_ACL(launch(second, failing_task("aclnnSecond")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeDevice());
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeDevice());
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST_F(FailureTest, SynchronizeDeviceWaitsForAllStreamsBeforeItReturnsAFailure) {
  Stream broken = make_stream(), slow = make_stream();
  std::atomic<bool> done{false};
  ASSERT_ACL(launch(broken, failing_task("aclnnBroken")));
  ASSERT_ACL(run_on(slow, [&] {
    std::this_thread::sleep_for(20ms);
    done = true;
  }));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeDevice());
  EXPECT_TRUE(done);
}

TEST_F(FailureTest, EveryCodeIsReturnedUnchanged) {
  Stream stream = make_stream();
  for (const aclError code : {ACL_ERROR_RT_AICORE_TIMEOUT, ACL_ERROR_RT_DEVICE_OOM, ACL_ERROR_INVALID_PARAM, 561103}) {
    ASSERT_ACL(launch(stream, failing_task("aclnnBroken", code)));
    EXPECT_ACL_ERROR(code, aclrtSynchronizeStream(stream));
  }
}

TEST_F(FailureTest, LongReasonIsCut) {
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken", ACL_ERROR_RT_AICORE_EXCEPTION, std::string(5000, 'x'))));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_RECENT_ERROR("xxxx");
}

TEST_F(FailureTest, FailureWithoutAReasonNamesTheTask) {
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, {.run = [](char*) { return ACL_ERROR_RT_AICORE_EXCEPTION; }, .name = "aclnnSilent"}));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  const std::string message = recent_error();
  EXPECT_NE(message.find("aclnnSilent"), std::string::npos) << message;
  EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char letter) { return letter >= ' ' && letter <= '~'; }))
      << "the message contains bytes that the task did not write: " << message;
}

class FailureModes : public AclFixture {};

TEST_F(FailureModes, FailuresAreReportedInTheSameWayWhenEverythingIsQueued) {
  REQUIRE_SOFTNPU();
  EXPECT_CHILD_PASSES("FailureTest.*:StopOnFailureTest.*", {"SOFTNPU_LAUNCH=queue"});
}

TEST_F(FailureModes, FailuresAreReportedInTheSameWayWhenEveryLaunchWaits) {
  REQUIRE_SOFTNPU();
  EXPECT_CHILD_PASSES("FailureTest.*:StopOnFailureTest.*", {"SOFTNPU_LAUNCH=sync"});
}

// --- stop on failure ----------------------------------------------------------------------------------------------------

class StopOnFailureTest : public FailureTest {
 protected:
  void SetUp() override {
    FailureTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_ACL(aclrtGetCurrentContext(&primary_));
    context_ = make_context();
    broken_ = make_stream();
    sound_ = make_stream();
    ASSERT_ACL(aclrtSetStreamFailureMode(broken_, ACL_STOP_ON_FAILURE));
  }
  void TearDown() override {
    // Destroys the rest of a stopped context. The calls may fail.
    static_cast<void>(broken_.release());
    static_cast<void>(sound_.release());
    context_ = Context();
    FailureTest::TearDown();
  }
  void break_it() {
    ASSERT_ACL(launch(broken_, failing_task("aclnnBroken")));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(broken_));
    EXPECT_RECENT_ERROR("aclnnBroken");
  }

  aclrtContext primary_ = nullptr;
  Context context_;
  Stream broken_, sound_;
};

TEST_F(StopOnFailureTest, StopsEveryStreamOfTheContext) {
  break_it();
  const Counter ran = make_counter();
  for (const aclrtStream stream : {broken_.get(), sound_.get(), aclrtStream{nullptr}}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, launch(stream, counting(ran)));
    EXPECT_RECENT_ERROR("aclnnBroken");
    EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeDevice());
  EXPECT_EQ(*ran, 0);
}

TEST_F(StopOnFailureTest, StaysStoppedAfterSeveralCalls) {
  break_it();
  Event event = make_event();
  const Counter ran = make_counter();
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(broken_));
  static_cast<void>(aclrtRecordEvent(event, broken_));
  static_cast<void>(aclrtSynchronizeEvent(event));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, launch(broken_, counting(ran)));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, launch(sound_, counting(ran)));
  EXPECT_EQ(*ran, 0);
}

TEST_F(StopOnFailureTest, WaitingForAnEventReturnsTheFailureAndTheContextStaysStopped) {
  Event event = make_event();
  ASSERT_ACL(launch(broken_, failing_task("aclnnBroken")));
  static_cast<void>(aclrtRecordEvent(event, broken_));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(broken_));
  static_cast<void>(aclrtSynchronizeEvent(event));
  const Counter ran = make_counter();
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, launch(broken_, counting(ran)));
  EXPECT_EQ(*ran, 0) << "a wait for an event restarted the stream";
}

TEST_F(StopOnFailureTest, OtherContextsContinue) {
  break_it();
  ASSERT_ACL(aclrtSetCurrentContext(primary_));
  Stream stream = make_stream();
  const Counter ran = make_counter();
  ASSERT_ACL(launch(stream, counting(ran)));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(*ran, 1);
}

TEST_F(StopOnFailureTest, EndsWithTheContext) {
  break_it();
  aclrtContext handle = context_.release();
  static_cast<void>(aclrtDestroyContext(handle));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSetCurrentContext(handle));
  context_ = make_context();  // may get the same slot
  Stream stream = make_stream();
  const Counter ran = make_counter();
  ASSERT_ACL(launch(stream, counting(ran)));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(*ran, 1);
}

TEST_F(StopOnFailureTest, FailureOnAStreamInTheOtherModeStopsNothing) {
  ASSERT_ACL(launch(sound_, failing_task("aclnnBroken")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(sound_));
  const Counter ran = make_counter();
  ASSERT_ACL(launch(broken_, counting(ran)));
  EXPECT_ACL(aclrtSynchronizeStream(broken_));
  EXPECT_EQ(*ran, 1);
}

// --- exception callbacks ------------------------------------------------------------------------------------------------

class ExceptionTest : public FailureTest {
 protected:
  struct Notice {
    std::atomic<int> count{0};
    std::atomic<uint32_t> task{0}, stream{0}, thread{0}, device{0}, code{0};
    std::atomic<int> ran_on{0};
  };
  static Notice& notice() {
    static auto* instance = new Notice;
    return *instance;
  }
  static void take_notice(aclrtExceptionInfo* info) {
    notice().task = aclrtGetTaskIdFromExceptionInfo(info);
    notice().stream = aclrtGetStreamIdFromExceptionInfo(info);
    notice().thread = aclrtGetThreadIdFromExceptionInfo(info);
    notice().device = aclrtGetDeviceIdFromExceptionInfo(info);
    notice().code = aclrtGetErrorCodeFromExceptionInfo(info);
    notice().ran_on = int(gettid());
    ++notice().count;
  }
  void TearDown() override {
    EXPECT_ACL(aclrtSetExceptionInfoCallback(nullptr));
    FailureTest::TearDown();
  }
};

TEST_F(ExceptionTest, CallbackGetsStreamDeviceThreadAndCode) {
  notice().count = 0;
  ASSERT_ACL(aclrtSetExceptionInfoCallback(take_notice));
  Stream stream = make_stream();
  int32_t number = -1;
  ASSERT_ACL(aclrtStreamGetId(stream, &number));
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_EQ(notice().count, 1);
  EXPECT_EQ(notice().stream, uint32_t(number));
  EXPECT_EQ(notice().device, 0u);
  EXPECT_EQ(notice().code, uint32_t(ACL_ERROR_RT_AICORE_EXCEPTION));
  EXPECT_EQ(notice().thread, uint32_t(notice().ran_on));
}

TEST_F(ExceptionTest, TaskNumbersDiffer) {
  ASSERT_ACL(aclrtSetExceptionInfoCallback(take_notice));
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  const uint32_t first = notice().task;
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_NE(notice().task, first);
}

TEST_F(ExceptionTest, NullUnregistersTheCallback) {
  ASSERT_ACL(aclrtSetExceptionInfoCallback(take_notice));
  ASSERT_ACL(aclrtSetExceptionInfoCallback(nullptr));
  notice().count = 0;
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_EQ(notice().count, 0);
}

// Runs code on another thread while the callback of a failed task runs.
class DuringExceptionTest : public ExceptionTest {
 protected:
  void SetUp() override {
    ExceptionTest::SetUp();
    const char* mode = std::getenv("SOFTNPU_LAUNCH");
    if (mode != nullptr && std::string_view(mode) != "hybrid") GTEST_SKIP() << "the task must run in the launching call";
  }
  // Makes a small task of `stream` fail; `act` runs on another thread while the callback waits for it.
  static void fail_while(aclrtStream stream, std::function<void()> act) {
    aclrtContext context = nullptr;
    ASSERT_ACL(aclrtGetCurrentContext(&context));
    action() = [context, act = std::move(act)] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      act();
    };
    ASSERT_ACL(aclrtSetExceptionInfoCallback([](aclrtExceptionInfo*) { std::thread(action()).join(); }));
    Task task = failing_task("aclnnBroken");
    task.cost = Task::kSmallCost;
    ASSERT_ACL(launch(stream, std::move(task)));
    ASSERT_ACL(aclrtSetExceptionInfoCallback(nullptr));
  }

 private:
  static std::function<void()>& action() {
    static auto* instance = new std::function<void()>;
    return *instance;
  }
};

TEST_F(DuringExceptionTest, TasksThatOtherThreadsLaunchAfterTheFailedOneAreSkipped) {
  Stream stream = make_stream();
  std::atomic<int> ran{0};
  const auto count = [&](char*) { return ++ran, ACL_SUCCESS; };
  fail_while(stream, [&] {
    EXPECT_ACL(launch(stream, {.run = count, .cost = Task::kSmallCost}));
    EXPECT_ACL(launch(stream, {.run = count}));
  });
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_EQ(ran, 0);
  EXPECT_ACL(launch(stream, {.run = count, .cost = Task::kSmallCost}));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(ran, 1);
}

TEST_F(DuringExceptionTest, StreamsThatWaitForTheFailedOneFail) {
  Stream stream = make_stream(), waiter = make_stream();
  Event event = make_event();
  std::atomic<int> ran{0};
  fail_while(stream, [&] {
    EXPECT_ACL(aclrtRecordEvent(event, stream));
    EXPECT_ACL(aclrtStreamWaitEvent(waiter, event));
    EXPECT_ACL(launch(waiter, {.run = [&](char*) { return ++ran, ACL_SUCCESS; }, .cost = Task::kSmallCost}));
  });
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(waiter));
  EXPECT_EQ(ran, 0);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
}

TEST_F(DuringExceptionTest, NextStreamInTheSlotOfTheFailedOneIsClean) {
  Stream stream = make_stream(), next;
  fail_while(stream, [&] {
    EXPECT_ACL(aclrtDestroyStreamForce(stream.release()));
    next = make_stream();
  });
  bool ran = false;
  EXPECT_ACL(launch(next, {.run = [&](char*) { return ran = true, ACL_SUCCESS; }, .cost = Task::kSmallCost}));
  EXPECT_ACL(aclrtSynchronizeStream(next));
  EXPECT_TRUE(ran);
}

// The last task of a stream may fail after its context was destroyed and another context has got the slot.
TEST_F(StopOnFailureTest, DoesNotStopTheNextContextInTheSameSlot) {
  Context dying = make_context();
  aclrtStream stream = make_stream().release();
  ASSERT_ACL(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  const Flag entered, opened;
  const auto run = [=](char*) {
    entered.set();
    EXPECT_TRUE(opened.within(kPatience));
    return aclError(ACL_ERROR_RT_AICORE_EXCEPTION);
  };
  std::thread launcher([&, context = dying.get()] {  // with SOFTNPU_LAUNCH=sync this launch waits for the task
    EXPECT_ACL(aclrtSetCurrentContext(context));
    EXPECT_ACL(launch(stream, {.run = run, .name = "aclnnBroken", .flags = SOFTNPU_TASK_ON_WORKER}));
  });
  ASSERT_TRUE(entered.within(kPatience));
  ASSERT_ACL(aclrtDestroyStreamForce(stream));
  ASSERT_ACL(aclrtDestroyContext(dying.release()));
  Context next = make_context();
  opened.set();
  launcher.join();
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; }));
  EXPECT_TRUE(signal_when_run(nullptr).within(kPatience));
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ExceptionTest, NullExceptionIsRefused) {
  EXPECT_EQ(aclrtGetTaskIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  EXPECT_EQ(aclrtGetStreamIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  EXPECT_EQ(aclrtGetThreadIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  EXPECT_EQ(aclrtGetDeviceIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  EXPECT_EQ(aclrtGetErrorCodeFromExceptionInfo(nullptr), 0xFFFFFFFFu);
}

}  // namespace
}  // namespace softnpu::test
