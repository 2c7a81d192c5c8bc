// One test per sentence of runtime/device/process.h. Tests that depend on the state of the process run in child processes.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

// --- queries that work at any time --------------------------------------------------------------------------------------

void expect_queries_succeed() {
  int32_t major = -1, minor = -1, patch = -1;
  EXPECT_ACL(aclrtGetVersion(&major, &minor, &patch));
  EXPECT_EQ(major, ACL_MAJOR_VERSION);
  EXPECT_EQ(minor, ACL_MINOR_VERSION);
  EXPECT_EQ(patch, ACL_PATCH_VERSION);

  const char* name = aclrtGetSocName();
  ASSERT_NE(name, nullptr);
  EXPECT_EQ(std::string(name).rfind("Ascend", 0), 0u) << name;

  uint32_t count = 0;
  EXPECT_ACL(aclrtGetDeviceCount(&count));
  EXPECT_GT(count, 0u);

  aclCANNPackageVersion version{};
  EXPECT_ACL(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
  EXPECT_NE(version.version[0], '\0');
  EXPECT_NE(version.majorVersion[0], '\0');

  char package[] = "runtime";
  char text[ACL_PKG_VERSION_MAX_SIZE] = {};
  int32_t number = 0;
  EXPECT_ACL(aclsysGetVersionStr(package, text));
  EXPECT_NE(text[0], '\0');
  EXPECT_ACL(aclsysGetVersionNum(package, &number));
  EXPECT_GT(number, 0);

  auto mode = aclrtRunMode(-1);
  EXPECT_ACL(aclrtGetRunMode(&mode));
  EXPECT_EQ(mode, ACL_HOST);

  const aclCannAttr* attributes = nullptr;
  size_t attribute_count = 0;
  EXPECT_ACL(aclGetCannAttributeList(&attributes, &attribute_count));
  ASSERT_GT(attribute_count, 0u);
  for (size_t index = 0; index < attribute_count; ++index) {
    int32_t value = -1;
    EXPECT_ACL(aclGetCannAttribute(attributes[index], &value));
    EXPECT_TRUE(value == 0 || value == 1);
  }
  for (const auto what : {ACL_DEVICE_INFO_AI_CORE_NUM, ACL_DEVICE_INFO_VECTOR_CORE_NUM, ACL_DEVICE_INFO_L2_SIZE}) {
    int64_t value = 0;
    EXPECT_ACL(aclGetDeviceCapability(0, what, &value));
    EXPECT_GT(value, 0);
  }
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

class InitTest : public AclFixture {};

TEST_F(InitTest, QueriesSucceedWhileInitialised) { expect_queries_succeed(); }

TEST_F(InitTest, WrongQueriesAreRefused) {
  aclCANNPackageVersion version{};
  char unknown[] = "no_such_package";
  char text[ACL_PKG_VERSION_MAX_SIZE] = {};
  int32_t number = 0;
  int64_t value = 0;
  EXPECT_REFUSED(aclsysGetCANNVersion(aclCANNPackageName(-1), &version));
  EXPECT_REFUSED(aclsysGetCANNVersion(aclCANNPackageName(8), &version));
  EXPECT_REFUSED(aclsysGetVersionStr(unknown, text));
  EXPECT_REFUSED(aclsysGetVersionNum(unknown, &number));
  EXPECT_REFUSED(aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &number));
  EXPECT_REFUSED(aclGetCannAttribute(aclCannAttr(3), &number));
  EXPECT_REFUSED(aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &value));
  EXPECT_REFUSED(aclGetDeviceCapability(0, aclDeviceInfo(3), &value));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclGetDeviceCapability(~0u, ACL_DEVICE_INFO_L2_SIZE, &value));
}

TEST_F(InitTest, SizesOfDataTypesAreReturned) {
  EXPECT_EQ(aclDataTypeSize(ACL_BOOL), 1u);
  EXPECT_EQ(aclDataTypeSize(ACL_BF16), 2u);
  EXPECT_EQ(aclDataTypeSize(ACL_FLOAT), 4u);
  EXPECT_EQ(aclDataTypeSize(ACL_INT64), 8u);
  EXPECT_EQ(aclDataTypeSize(ACL_COMPLEX128), 16u);
  EXPECT_EQ(aclDataTypeSize(ACL_DT_UNDEFINED), 0u);
  EXPECT_EQ(aclDataTypeSize(aclDataType(1000)), 0u);
}

TEST_F(InitTest, HalfPrecisionNumbersRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = aclFloat16(bits);
    const float value = aclFloat16ToFloat(half);
    if (value != value) {
      EXPECT_NE(aclFloat16ToFloat(aclFloatToFloat16(value)), aclFloat16ToFloat(half));
      continue;
    }
    ASSERT_EQ(aclFloatToFloat16(value), half) << value;
  }
  EXPECT_EQ(aclFloatToFloat16(1.0f + 1.0f / 2048), aclFloatToFloat16(1.0f)) << "a tie was not rounded to even";
  EXPECT_EQ(aclFloatToFloat16(1e10f), 0x7C00) << "a number that is too large did not become infinite";
}

// --- before aclInit and after aclFinalize -------------------------------------------------------------------------------

void expect_uninitialised(const char* words) {
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  void* memory = nullptr;
  int32_t device = -1;
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtSetDevice(0));
  EXPECT_RECENT_ERROR(words);
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtGetDevice(&device));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtResetDevice(0));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtCreateStream(&stream));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtCreateEvent(&event));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtMallocHost(&memory, 64));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtSynchronizeDevice());
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtSynchronizeStream(nullptr));
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_UNINITIALIZE);
  recent_error();
}

class ChildProcess : public ::testing::Test {};

TEST_F(ChildProcess, BeforeInit) {
  expect_queries_succeed();
  expect_uninitialised("aclInit");
  expect_queries_succeed();
  uint64_t left = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclFinalize());
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclFinalizeReference(&left));
}

TEST_F(ChildProcess, InitTwice) {
  ASSERT_ACL(aclInit(nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_REPEAT_INITIALIZE, aclInit(nullptr));
  EXPECT_ACL(aclrtSetDevice(0));
  EXPECT_ACL(aclFinalize());
  EXPECT_ACL_ERROR(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
}

TEST_F(ChildProcess, AfterFinalize) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  ASSERT_ACL(aclFinalize());
  expect_uninitialised("finalized");
  expect_queries_succeed();
}

TEST_F(ChildProcess, References) {
  ASSERT_ACL(aclInit(nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_REPEAT_INITIALIZE, aclInit(nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_REPEAT_INITIALIZE, aclInit(nullptr));
  uint64_t left = 99;
  EXPECT_ACL(aclFinalizeReference(&left));
  EXPECT_EQ(left, 2u);
  EXPECT_ACL(aclFinalizeReference(&left));
  EXPECT_EQ(left, 1u);
  EXPECT_ACL(aclrtSetDevice(0)) << "the library was finalized before the last reference ended";
  EXPECT_ACL(aclFinalizeReference(&left));
  EXPECT_EQ(left, 0u);
  expect_uninitialised("finalized");
  EXPECT_REFUSED(aclFinalizeReference(&left));
}

TEST_F(ChildProcess, FinalizeDropsEverything) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  aclrtStream stream = make_stream().release();
  aclrtEvent event = make_event().release();
  aclrtContext context = make_context().release();
  aclrtStream inner = make_stream().release();
  ASSERT_ACL(run_on(inner, [] {}));
  void* memory = make_device_buffer(1 << 20).release();
  ASSERT_ACL(aclFinalize());

  ASSERT_ACL(aclInit(nullptr));
  int32_t device = -1;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device)) << "a context was not destroyed";
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(inner));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeEvent(event));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSetCurrentContext(context));
  EXPECT_REFUSED(aclrtFree(memory));
  Stream again = make_stream();
  EXPECT_TRUE(signal_when_run(again).within(kPatience));
}

TEST_F(ChildProcess, FinalizeAndInitManyTimes) {
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    ASSERT_ACL(aclInit(nullptr));
    ASSERT_ACL(aclrtSetDevice(0));
    Stream stream = make_stream();
    ASSERT_TRUE(signal_when_run(stream).within(kPatience));
    if (round % 2 == 0) {
      ASSERT_ACL(aclrtDestroyStream(stream.release()));
    }
    if (round % 3 == 0) {
      ASSERT_ACL(aclrtResetDevice(0));
    }
    ASSERT_ACL(aclFinalize());
    static_cast<void>(stream.release());
  }
}

TEST_F(ChildProcess, DestroyAfterFinalize) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  aclrtStream stream = make_stream().release();
  aclrtEvent event = make_event().release();
  void* memory = make_device_buffer(64).release();
  ASSERT_ACL(aclFinalize());
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtDestroyEvent(event));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtDestroyStream(stream));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtFree(memory));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtResetDevice(0));
}

TEST_F(ChildProcess, FinalizeWithPendingWork) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  Stream stream = make_stream();
  auto ran = std::make_shared<std::atomic<int>>(0);
  constexpr int kTasks = 1000;
  for (int count = 0; count < kTasks; ++count) {
    ASSERT_ACL(run_on(stream, [ran] {
      std::this_thread::sleep_for(20ms);
      ++*ran;
    }));
  }
  ASSERT_ACL(aclFinalize());
  EXPECT_LT(*ran, kTasks) << "pending work was not dropped";
  const int at_end = *ran;
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(*ran, at_end) << "work ran after aclFinalize";
  static_cast<void>(stream.release());
}

TEST_F(ChildProcess, CopyWithoutADevice) {
  ASSERT_ACL(aclInit(nullptr));
  char source[64] = "text", destination[64] = {};
  // There is no device: the calls may fail or succeed, but must return.
  static_cast<void>(aclrtMemset(destination, 64, 0, 64));
  static_cast<void>(aclrtMemcpy(destination, 64, source, 64, ACL_MEMCPY_HOST_TO_HOST));
  recent_error();
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL(aclrtMemcpy(destination, 64, source, 64, ACL_MEMCPY_HOST_TO_HOST));
  EXPECT_STREQ(destination, "text");
}

TEST(ProcessTest, CallsBeforeInitAreRefused) { EXPECT_CHILD_PASSES("ChildProcess.BeforeInit"); }
TEST(ProcessTest, SecondInitReturnsRepeatInitialize) { EXPECT_CHILD_PASSES("ChildProcess.InitTwice"); }
TEST(ProcessTest, CallsAfterFinalizeAreRefused) { EXPECT_CHILD_PASSES("ChildProcess.AfterFinalize"); }
TEST(ProcessTest, ReferencesAreCounted) { EXPECT_CHILD_PASSES("ChildProcess.References"); }
TEST(ProcessTest, FinalizeDropsEverything) { EXPECT_CHILD_PASSES("ChildProcess.FinalizeDropsEverything"); }
TEST(ProcessTest, CanBeInitialisedAgain) { EXPECT_CHILD_PASSES("ChildProcess.FinalizeAndInitManyTimes"); }
TEST(ProcessTest, HandlesMayBeDestroyedAfterFinalize) { EXPECT_CHILD_PASSES("ChildProcess.DestroyAfterFinalize"); }
TEST(ProcessTest, FinalizeDropsPendingWork) { EXPECT_CHILD_PASSES("ChildProcess.FinalizeWithPendingWork"); }
TEST(ProcessTest, CopiesWithoutADeviceReturn) { EXPECT_CHILD_PASSES("ChildProcess.CopyWithoutADevice"); }

// --- fork ---------------------------------------------------------------------------------------------------------------

// Runs `body` in a forked child. Returns its exit code.
int in_fork(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class ForkTest : public AclFixture {};

TEST_F(ForkTest, ForkedChildIsRefusedWithTheAdviceToSpawn) {
  Stream stream = make_stream();
  ASSERT_TRUE(signal_when_run(stream).within(kPatience));
  DeviceBuffer buffer = make_device_buffer(64);
  aclrtStream handle = stream;
  void* memory = buffer;
  EXPECT_EQ(in_fork([&] {
              if (aclrtSetDevice(0) != ACL_ERROR_UNINITIALIZE) return 1;
              if (recent_error().find("spawn") == std::string::npos) return 2;
              if (aclrtSynchronizeStream(handle) != ACL_ERROR_UNINITIALIZE) return 3;
              if (aclInit(nullptr) == ACL_SUCCESS) return 4;
              if (aclFinalize() == ACL_SUCCESS) return 5;
              if (aclrtFree(memory) != ACL_ERROR_UNINITIALIZE) return 6;
              uint32_t count = 0;
              if (aclrtGetDeviceCount(&count) != ACL_SUCCESS || count == 0) return 7;
              return 0;
            }),
            0);
  EXPECT_TRUE(signal_when_run(stream).within(kPatience)) << "calls of the child damaged the parent";
}

TEST_F(ForkTest, ForkedChildMayExit) {
  Stream stream = make_stream();
  Gate gate(stream);
  ASSERT_TRUE(gate.entered().within(kPatience));
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    std::quick_exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

class ChildFork : public ::testing::Test {};

TEST_F(ChildFork, BeforeUse) {
  ASSERT_ACL(aclInit(nullptr));
  EXPECT_EQ(in_fork([] {
              if (aclrtSetDevice(0) != ACL_SUCCESS) return 1;
              void* memory = nullptr;
              if (aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 2;
              if (aclrtMemset(memory, 64, 1, 64) != ACL_SUCCESS) return 3;
              return 0;
            }),
            0);
  EXPECT_ACL(aclrtSetDevice(0));
}

TEST_F(ChildFork, ExitHandlers) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  Stream stream = make_stream();
  ASSERT_ACL(run_on(stream, [] {}));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    std::exit(0);  // runs the exit handlers of all libraries
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ProcessTest, ChildForkedBeforeADeviceWasUsedMayUseOne) { EXPECT_CHILD_PASSES("ChildFork.BeforeUse"); }
TEST(ProcessTest, ChildForkedAfterUseExitsWithoutWaiting) {
  // LeakSanitizer would report memory of the other threads of the parent.
  EXPECT_CHILD_PASSES("ChildFork.ExitHandlers", {"ASAN_OPTIONS=detect_leaks=0"});
}

// --- the end of the process ---------------------------------------------------------------------------------------------

// exit() does not run destructors of the test: no gate opens, no handle is destroyed. The pending work would last longer than
// kPatience.
class ChildExit : public AclFixture {
 protected:
  [[noreturn]] static void leave() { std::exit(HasFailure() ? 1 : 0); }
};

TEST_F(ChildExit, Pending) {
  Stream stream = make_stream();
  for (int count = 0; count < 1000; ++count) EXPECT_ACL(run_on(stream, [] { std::this_thread::sleep_for(100ms); }));
  leave();
}

TEST_F(ChildExit, HeldCallback) {
  Stream stream = make_stream();
  Gate gate(stream);
  EXPECT_TRUE(gate.entered().within(kPatience));
  leave();
}

TEST_F(ChildExit, HeldByAnEvent) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  EXPECT_ACL(aclrtRecordEvent(event, producer));
  EXPECT_ACL(aclrtStreamWaitEvent(consumer, event));
  leave();
}

TEST_F(ChildExit, WaitingThread) {
  Stream stream = make_stream();
  aclrtContext context = nullptr;
  EXPECT_ACL(aclrtGetCurrentContext(&context));
  Gate gate(stream);
  EXPECT_TRUE(gate.entered().within(kPatience));
  Flag waiting;
  std::thread([context, waiting, handle = stream.get()] {
    aclrtSetCurrentContext(context);
    waiting.set();
    aclrtSynchronizeStream(handle);
  }).detach();
  EXPECT_TRUE(waiting.within(kPatience));
  leave();
}

TEST_F(ChildExit, FailedTask) {
  REQUIRE_SOFTNPU();
  Stream stream = make_stream();
  EXPECT_ACL(launch(stream, failing_task("aclnnBroken")));
  leave();
}

TEST_F(ChildExit, CallsFromExitHandlers) {
  static aclrtStream stream = make_stream().release();
  EXPECT_ACL(run_on(stream, [] {}));
  std::atexit([] {
    // These calls may fail, but must return.
    aclrtLaunchHostFunc(
        stream, [](void*) {}, nullptr);
    aclrtSynchronizeStream(stream);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
  });
  leave();
}

TEST_F(ChildExit, AfterFinalize) {
  Stream stream = make_stream();
  EXPECT_ACL(aclFinalize());
  leave();
}

TEST(ProcessTest, ExitDoesNotWaitForPendingWork) {
  for (const char* name :
       {"Pending", "HeldCallback", "HeldByAnEvent", "WaitingThread", "FailedTask", "CallsFromExitHandlers", "AfterFinalize"}) {
    EXPECT_CHILD_PASSES(std::string("ChildExit.") + name, {}, kPatience);
  }
}

}  // namespace
}  // namespace softnpu::test
