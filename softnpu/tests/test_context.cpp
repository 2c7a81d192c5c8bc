// One test per sentence of runtime/stream/context.h, and of the context functions.
#include <atomic>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class ContextTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    primary_ = current();
  }
  static aclrtContext current() {
    aclrtContext context = nullptr;
    EXPECT_ACL(aclrtGetCurrentContext(&context));
    return context;
  }
  static bool has_two_devices() {
    uint32_t count = 0;
    EXPECT_ACL(aclrtGetDeviceCount(&count));
    return count >= 2;
  }

  aclrtContext primary_ = nullptr;
};

TEST_F(ContextTest, NewContextBecomesCurrent) {
  Context context = make_context();
  EXPECT_EQ(current(), context.get());
  EXPECT_NE(context.get(), primary_);
}

TEST_F(ContextTest, SettingTheDeviceAgainGivesTheSamePrimaryContext) {
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_EQ(current(), primary_);
  ASSERT_ACL(aclrtResetDevice(0));
  EXPECT_EQ(current(), primary_);
}

TEST_F(ContextTest, PrimaryContextIsSharedAmongThreads) {
  std::thread([&] {
    EXPECT_ACL(aclrtSetDevice(0));
    EXPECT_EQ(current(), primary_);
    EXPECT_ACL(aclrtResetDevice(0));
  }).join();
}

TEST_F(ContextTest, CurrentContextBelongsToTheThread) {
  Context context = make_context();
  std::thread([&] {
    aclrtContext none = nullptr;
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&none));
    EXPECT_ACL(aclrtSetCurrentContext(primary_));
    EXPECT_EQ(current(), primary_);
  }).join();
  EXPECT_EQ(current(), context.get());
}

TEST_F(ContextTest, SettingAContextMaySwitchTheDevice) {
  if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
  Context context = make_context(1);
  int32_t device = -1;
  ASSERT_ACL(aclrtGetDevice(&device));
  EXPECT_EQ(device, 1);
  ASSERT_ACL(aclrtSetCurrentContext(primary_));
  ASSERT_ACL(aclrtGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST_F(ContextTest, StreamOfAnotherContextIsRefused) {
  Stream stream = make_stream();
  Context context = make_context();
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CONTEXT, aclrtSynchronizeStream(stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CONTEXT, aclrtLaunchHostFunc(
                                                    stream, [](void*) {}, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(stream));
  ASSERT_ACL(aclrtSetCurrentContext(primary_));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ContextTest, EventOrdersStreamsOfDifferentContexts) {
  Stream producer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  {
    Context context = make_context(has_two_devices() ? 1 : 0);
    Stream consumer = make_stream();
    ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
    Flag passed = signal_when_run(consumer);
    EXPECT_FALSE(passed.within(10ms));
    gate.open();
    EXPECT_TRUE(passed.within(kPatience));
  }
  ASSERT_ACL(aclrtSetCurrentContext(primary_));
}

TEST_F(ContextTest, DestroyWaitsForItsStreamsAndDestroysThem) {
  Context context = make_context();
  aclrtStream stream = make_stream().release();
  std::atomic<bool> done{false};
  ASSERT_ACL(run_on(stream, [&] {
    std::this_thread::sleep_for(20ms);
    done = true;
  }));
  ASSERT_ACL(aclrtDestroyContext(context.release()));
  EXPECT_TRUE(done);
  ASSERT_ACL(aclrtSetCurrentContext(primary_));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(stream));
}

TEST_F(ContextTest, DestroyReturnsAFailureThatWasNotReported) {
  REQUIRE_SOFTNPU();
  Context context = make_context();
  Stream stream = make_stream();
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  static_cast<void>(stream.release());
  aclrtContext handle = context.release();
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtDestroyContext(handle));
  EXPECT_RECENT_ERROR("aclnnBroken");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSetCurrentContext(handle));
}

TEST_F(ContextTest, ThreadHasNoContextAfterItsContextWasDestroyed) {
  Context context = make_context();
  ASSERT_ACL(aclrtDestroyContext(context.release()));
  aclrtContext none = nullptr;
  int32_t device = -1;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&none));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeStream(nullptr));
  EXPECT_RECENT_ERROR("destroyed");
}

TEST_F(ContextTest, PrimaryContextCannotBeDestroyed) {
  EXPECT_REFUSED(aclrtDestroyContext(primary_));
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ContextTest, OutlivesTheResetOfItsDevice) {
  if (!has_two_devices()) GTEST_SKIP() << "needs two devices";
  ASSERT_ACL(aclrtSetDevice(1));
  Context context = make_context(1);
  ASSERT_ACL(aclrtResetDevice(1));
  EXPECT_EQ(current(), context.get());
  EXPECT_TRUE(signal_when_run(nullptr).within(kPatience)) << "a context of the client was destroyed with the primary one";
}

TEST_F(ContextTest, SynchronizeDeviceCoversAllContexts) {
  Context context = make_context();
  Stream stream = make_stream();
  std::atomic<bool> done{false};
  ASSERT_ACL(run_on(stream, [&] {
    std::this_thread::sleep_for(20ms);
    done = true;
  }));
  ASSERT_ACL(aclrtSetCurrentContext(primary_));
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_TRUE(done);
  ASSERT_ACL(aclrtSetCurrentContext(context));
}

TEST_F(ContextTest, PrimaryStateTellsWhetherTheDeviceIsInUse) {
  int32_t active = -1;
  uint32_t flags = 99;
  ASSERT_ACL(aclrtGetPrimaryCtxState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  EXPECT_EQ(flags, 0u);
  EXPECT_ACL(aclrtGetPrimaryCtxState(0, nullptr, &active));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtGetPrimaryCtxState(0, &flags, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetPrimaryCtxState(-1, &flags, &active));
  if (!has_two_devices()) return;
  ASSERT_ACL(aclrtGetPrimaryCtxState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtGetPrimaryCtxState(1, &flags, &active));
  EXPECT_EQ(active, 1);
  ASSERT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtGetPrimaryCtxState(1, &flags, &active));
  EXPECT_EQ(active, 0);
}

TEST_F(ContextTest, WrongArgumentsAreRefused) {
  aclrtContext context = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtCreateContext(&context, -1));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtCreateContext(&context, 1000));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtCreateContext(nullptr, 0));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtDestroyContext(nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtSetCurrentContext(nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtGetCurrentContext(nullptr));
  EXPECT_EQ(current(), primary_) << "a refused call changed the current context";
}

TEST_F(ContextTest, ManyContextsCanBeCreatedAndDestroyed) {
  for (int round = 0; round < 200; ++round) {
    Context context = make_context();
    Stream stream = make_stream();
    ASSERT_ACL(aclrtMemset(make_device_buffer(64), 64, 0, 64));
  }
  ASSERT_ACL(aclrtSetCurrentContext(primary_));
}

// --- system parameters --------------------------------------------------------------------------------------------------

TEST_F(ContextTest, ParametersAreKeptPerContext) {
  int64_t value = -1;
  Context context = make_context();
  for (const auto option :
       {ACL_OPT_DETERMINISTIC, ACL_OPT_ENABLE_DEBUG_KERNEL, ACL_OPT_STRONG_CONSISTENCY, ACL_OPT_ENABLE_KERNEL_EARLY_START}) {
    SCOPED_TRACE("option " + std::to_string(option));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(option, &value));
    ASSERT_ACL(aclrtCtxSetSysParamOpt(option, 1));
    ASSERT_ACL(aclrtCtxGetSysParamOpt(option, &value));
    EXPECT_EQ(value, 1);
    ASSERT_ACL(aclrtCtxSetSysParamOpt(option, 0));
    ASSERT_ACL(aclrtCtxGetSysParamOpt(option, &value));
    EXPECT_EQ(value, 0);
  }
  ASSERT_ACL(aclrtDestroyContext(context.release()));
  context = make_context();  // may get the same slot
  EXPECT_ACL_ERROR(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value))
      << "a new context has the parameters of a destroyed one";
}

TEST_F(ContextTest, ParametersOfTheProcessCanBeSet) {
  int64_t value = -1;
  ASSERT_ACL(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  ASSERT_ACL(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  EXPECT_EQ(value, 1);
  ASSERT_ACL(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
}

TEST_F(ContextTest, WrongParametersAreRefused) {
  int64_t value = -1;
  for (const int option : {-1, 4, 1000}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCtxSetSysParamOpt(aclSysParamOpt(option), 1));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCtxGetSysParamOpt(aclSysParamOpt(option), &value));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetSysParamOpt(aclSysParamOpt(option), 1));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtGetSysParamOpt(aclSysParamOpt(option), &value));
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 2));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, -1));
}

}  // namespace
}  // namespace softnpu::test
