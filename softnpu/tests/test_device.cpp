// One test per sentence of runtime/device/device.h, and of the device functions.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

uint32_t device_count() {
  uint32_t count = 0;
  EXPECT_ACL(aclrtGetDeviceCount(&count));
  return count;
}

int32_t current_device() {
  int32_t device = -1;
  EXPECT_ACL(aclrtGetDevice(&device));
  return device;
}

bool is_active(int32_t device) {
  int32_t active = -1;
  EXPECT_ACL(aclrtGetPrimaryCtxState(device, nullptr, &active));
  return active == 1;
}

class DeviceTest : public AclFixture {
 protected:
  const std::vector<int32_t> kWrongNumbers = {-1, int32_t(device_count()), 1000, std::numeric_limits<int32_t>::max(),
                                              std::numeric_limits<int32_t>::min()};
};
class TwoDevicesTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
  }
};

// --- choosing -----------------------------------------------------------------------------------------------------------

TEST_F(DeviceTest, WrongNumbersAreRefusedEverywhere) {
  for (const int32_t number : kWrongNumbers) {
    SCOPED_TRACE("device " + std::to_string(number));
    aclrtUtilizationInfo utilization{};
    auto status = ACL_RT_DEVICE_STATUS_END;
    int32_t answer = 0;
    int64_t value = 0;
    uint32_t limit = 0;
    size_t size = 0;
    aclrtUuid uuid{};
    aclrtErrorInfo error{};
    aclrtMemUceInfo uce{};
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(number));
    EXPECT_RECENT_ERROR(std::to_string(number));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDevice(number));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDeviceForce(number));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetDeviceUtilizationRate(number, &utilization));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtQueryDeviceStatus(number, &status));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceCanAccessPeer(&answer, 0, number));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceCanAccessPeer(&answer, number, 0));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceEnablePeerAccess(number, 0));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceDisablePeerAccess(number));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceGetUuid(number, &uuid));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetDeviceInfo(uint32_t(number), ACL_DEV_ATTR_VECTOR_CORE_NUM, &value));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetLogicDevIdByUserDevId(number, &answer));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtDeviceTaskAbort(number, 10));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUceInfo(number, &uce, 1, &size));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemUceRepair(number, &uce, 1));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetErrorVerbose(number, &error));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtRepairError(number, &error));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetDeviceResLimit(number, ACL_RT_DEV_RES_CUBE_CORE, &limit));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDeviceResLimit(number, ACL_RT_DEV_RES_CUBE_CORE, 1));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtResetDeviceResLimit(number));
  }
  EXPECT_EQ(current_device(), 0) << "a refused call changed the current device";
}

TEST_F(DeviceTest, ThreadStartsWithoutADevice) {
  std::thread([] {
    int32_t device = -1;
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    void* memory = nullptr;
    auto mode = ACL_RT_OVERFLOW_MODE_UNDEF;
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
    EXPECT_RECENT_ERROR("aclrtSetDevice");
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&stream));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateEvent(&event));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeStream(nullptr));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDeviceSatMode(&mode));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchHostFunc(
                                                    nullptr, [](void*) {}, nullptr));
  }).join();
}

TEST_F(TwoDevicesTest, EachThreadHasItsOwnDevice) {
  std::thread([] {
    EXPECT_ACL(aclrtSetDevice(1));
    EXPECT_EQ(current_device(), 1);
    EXPECT_ACL(aclrtResetDevice(1));
  }).join();
  EXPECT_EQ(current_device(), 0);
}

TEST_F(TwoDevicesTest, StreamsOfOneDeviceAreRefusedOnAnother) {
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSetDevice(1));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CONTEXT, aclrtSynchronizeStream(stream));
  EXPECT_RECENT_ERROR("device 0");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStreamForce(stream));
  ASSERT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  ASSERT_ACL(aclrtResetDevice(0));
}

TEST_F(TwoDevicesTest, EventsConnectDevices) {
  Stream producer = make_stream();
  Event event = make_event();
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtSetDevice(1));
  {
    Stream consumer = make_stream();
    ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
    Flag passed = signal_when_run(consumer);
    EXPECT_FALSE(passed.within(10ms));
    gate.open();
    EXPECT_TRUE(passed.within(kPatience));
  }
  ASSERT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtSetDevice(0));
  ASSERT_ACL(aclrtResetDevice(0));
}

TEST_F(TwoDevicesTest, AllDevicesWork) {
  for (int32_t number = 1; number < int32_t(device_count()); ++number) {
    SCOPED_TRACE("device " + std::to_string(number));
    ASSERT_ACL(aclrtSetDevice(number));
    EXPECT_EQ(current_device(), number);
    EXPECT_TRUE(signal_when_run(nullptr).within(kPatience));
    ASSERT_ACL(aclrtResetDevice(number));
  }
}

// --- resetting ----------------------------------------------------------------------------------------------------------

TEST_F(TwoDevicesTest, ResetUndoesOneSet) {
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtResetDevice(1));
  EXPECT_TRUE(is_active(1)) << "the first reset took the device from its other user";
  EXPECT_EQ(current_device(), 1);
  ASSERT_ACL(aclrtResetDevice(1));
  EXPECT_FALSE(is_active(1));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtResetDevice(1));
}

TEST_F(TwoDevicesTest, ResetCountsOverThreads) {
  ASSERT_ACL(aclrtSetDevice(1));
  std::thread([] { EXPECT_ACL(aclrtSetDevice(1)); }).join();
  ASSERT_ACL(aclrtResetDevice(1));
  EXPECT_TRUE(is_active(1));
  std::thread([] { EXPECT_ACL(aclrtResetDevice(1)); }).join();
  EXPECT_FALSE(is_active(1));
}

TEST_F(TwoDevicesTest, ResetForceMakesAnyoneTheLastUser) {
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtResetDeviceForce(1));
  EXPECT_FALSE(is_active(1));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtResetDeviceForce(1));
}

TEST_F(TwoDevicesTest, LastResetWaitsAndDestroysTheStreams) {
  ASSERT_ACL(aclrtSetDevice(1));
  aclrtStream stream = make_stream().release();
  std::atomic<bool> done{false};
  ASSERT_ACL(run_on(stream, [&] {
    std::this_thread::sleep_for(20ms);
    done = true;
  }));
  ASSERT_ACL(aclrtResetDevice(1));
  EXPECT_TRUE(done);
  int32_t device = -1;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
  ASSERT_ACL(aclrtSetDevice(1));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(stream));
  ASSERT_ACL(aclrtResetDevice(1));
}

TEST_F(TwoDevicesTest, ResetReturnsAFailureThatNobodyTook) {
  REQUIRE_SOFTNPU();
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(launch(nullptr, failing_task("aclnnBroken")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtResetDevice(1));
  EXPECT_FALSE(is_active(1));
  ASSERT_ACL(aclrtSetDevice(1));
  EXPECT_ACL(aclrtSynchronizeDevice());
  ASSERT_ACL(aclrtResetDevice(1));
}

TEST_F(TwoDevicesTest, ResettingOneDeviceLeavesTheOthersAlone) {
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_TRUE(signal_when_run(stream).within(kPatience));
  ASSERT_ACL(aclrtResetDevice(0));
}

// --- waiting and aborting -----------------------------------------------------------------------------------------------

// Streams live in places that are used again: those who wait for a list of streams must not meet the next owner of a place.
class ReusedPlaceTest : public TwoDevicesTest {
 protected:
  void SetUp() override {
    TwoDevicesTest::SetUp();
    ASSERT_ACL(aclrtCreateContext(&context_, 0));
  }
  // Another thread destroys `stream`; when that is over, it makes a stream on device 1 that gets its place.
  std::thread replace(aclrtStream stream, aclrtStream* next, const Flag& done) {
    int32_t number = -1;
    EXPECT_ACL(aclrtStreamGetId(stream, &number));
    std::thread replacer([=, this] {
      EXPECT_ACL(aclrtSetDevice(1));  // now, so that its default stream does not get the place
      EXPECT_ACL(aclrtSetCurrentContext(context_));
      replacer_ = gettid();
      EXPECT_ACL(aclrtDestroyStream(stream));
      EXPECT_ACL(aclrtSetDevice(1));
      EXPECT_TRUE(eventually([&] {  // the thread of the destroyed stream gives the place back in its own time
        EXPECT_ACL(aclrtCreateStream(next));
        int32_t got = -1;
        EXPECT_ACL(aclrtStreamGetId(*next, &got));
        return got == number;
      }));
      done.set();
    });
    EXPECT_TRUE(eventually([&] { return falls_asleep(replacer_); }));
    return replacer;
  }

  aclrtContext context_ = nullptr;
  std::atomic<pid_t> replacer_{0};
};

TEST_F(ReusedPlaceTest, DestroyingAContextLeavesStreamsOfOtherDevicesAlone) {
  aclrtStream second = make_stream().release(), first = make_stream().release(), next = nullptr;
  Gate first_gate(first), second_gate(second);
  const Flag replaced;
  std::thread replacer = replace(second, &next, replaced);
  std::thread destroyer([&] { EXPECT_ACL(aclrtDestroyContext(context_)); });
  EXPECT_TRUE(eventually([&] { return aclrtSetCurrentContext(context_) != ACL_SUCCESS; }));
  std::this_thread::sleep_for(50ms);  // until the list of its streams was made; too short, the test cannot fail
  second_gate.open();
  EXPECT_TRUE(replaced.within(kPatience));
  first_gate.open();
  destroyer.join();
  replacer.join();
  ASSERT_ACL(aclrtSetDevice(1));
  Stream owned(next);
  EXPECT_TRUE(signal_when_run(owned).within(kPatience));
  EXPECT_ACL(aclrtSynchronizeStream(owned));
  EXPECT_ACL(aclrtDestroyStream(owned.release()));
  EXPECT_ACL(aclrtResetDeviceForce(1));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL(aclrtResetDevice(0));
}

TEST_F(ReusedPlaceTest, SynchronizingADeviceWaitsForNoOtherDevice) {
  aclrtStream first = make_stream().release(), second = make_stream().release(), next = nullptr;
  Gate first_gate(first), second_gate(second);
  const Flag replaced, synchronized;
  std::thread replacer = replace(second, &next, replaced);
  std::thread waiter([&] {
    EXPECT_ACL(aclrtSetCurrentContext(context_));
    EXPECT_ACL(aclrtSynchronizeDevice());
    synchronized.set();
  });
  std::this_thread::sleep_for(50ms);  // until the waiter has made its list; too short, the test cannot fail
  second_gate.open();
  EXPECT_TRUE(replaced.within(kPatience));
  replacer.join();
  ASSERT_ACL(aclrtSetDevice(1));
  {
    Gate held(next);
    first_gate.open();
    EXPECT_TRUE(synchronized.within(kPatience)) << "it waits for a stream of device 1";
  }
  waiter.join();
  EXPECT_ACL(aclrtDestroyStream(next));
  EXPECT_ACL(aclrtResetDeviceForce(1));
  EXPECT_ACL(aclrtSetCurrentContext(context_));
  EXPECT_ACL(aclrtDestroyContext(context_));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL(aclrtResetDevice(0));
}

TEST_F(DeviceTest, SynchronizeDoesNotMindThatAnotherThreadDestroysItsStream) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    aclrtStream stream = make_stream().release();
    Gate gate(stream);
    std::thread destroyer([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      EXPECT_ACL(aclrtDestroyStream(stream));
    });
    std::thread opener([&] { gate.open(); });
    EXPECT_ACL(aclrtSynchronizeDevice());
    opener.join();
    destroyer.join();
  }
}

TEST_F(DeviceTest, SynchronizeWaitsForAllStreams) {
  Stream first = make_stream(), second = make_stream();
  std::atomic<int> done{0};
  for (const aclrtStream stream : {first.get(), second.get(), aclrtStream{nullptr}}) {
    ASSERT_ACL(run_on(stream, [&] {
      std::this_thread::sleep_for(10ms);
      ++done;
    }));
  }
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(done, 3);
}

TEST_F(DeviceTest, SynchronizeWithTimeoutGivesUpAndTheWorkGoesOn) {
  Stream stream = make_stream();
  Gate gate(stream);
  Flag reached = signal_when_run(stream);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(10));
  gate.open();
  EXPECT_ACL(aclrtSynchronizeDeviceWithTimeout(kPatienceMs));
  EXPECT_TRUE(reached.is_set());
  EXPECT_ACL(aclrtSynchronizeDeviceWithTimeout(-1));
  EXPECT_ACL(aclrtSynchronizeDeviceWithTimeout(0));
}

TEST_F(DeviceTest, SynchronizeWithTimeoutIsOneLimitForAllStreams) {
  std::vector<Stream> streams;
  for (int count = 0; count < 5; ++count) streams.push_back(make_stream());
  std::vector<std::unique_ptr<Gate>> gates;
  for (const Stream& stream : streams) gates.push_back(std::make_unique<Gate>(stream));
  EXPECT_TRUE(eventually([] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(50));
    return std::chrono::steady_clock::now() - begin < 5 * 50ms;
  })) << "it waits for each stream in turn";
}

// Nobody sees from outside whether the waiter is in its call yet: rounds are tried, with more and more time for it.
TEST_F(DeviceTest, AbortDropsPendingWorkOfAllStreams) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  milliseconds pause = 10ms;
  EXPECT_TRUE(eventually([&] {
    Stream first = make_stream(), second = make_stream();
    Gate gate(first);
    Flag behind = signal_when_run(first);
    Event event = make_event();
    EXPECT_ACL(aclrtRecordEvent(event, first));
    EXPECT_ACL(aclrtStreamWaitEvent(second, event));
    Flag waiting = signal_when_run(second);
    EXPECT_TRUE(gate.entered().within(kPatience));

    Flag in_call;
    aclError waited = ACL_SUCCESS;
    std::thread waiter([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      in_call.set();
      waited = aclrtSynchronizeStream(first);
    });
    EXPECT_TRUE(in_call.within(kPatience));
    std::this_thread::sleep_for(pause);
    EXPECT_REFUSED(aclrtDeviceTaskAbort(0, 10)) << "the running task has not ended";
    gate.open();
    EXPECT_ACL(aclrtDeviceTaskAbort(0, 0));
    waiter.join();
    EXPECT_TRUE(waited == ACL_SUCCESS || waited == ACL_ERROR_RT_DEVICE_TASK_ABORT) << code_text(waited);
    EXPECT_FALSE(behind.is_set());
    EXPECT_FALSE(waiting.is_set());
    EXPECT_TRUE(signal_when_run(first).within(kPatience)) << "the stream is of no use after an abort";
    EXPECT_ACL(aclrtSynchronizeDevice());
    pause *= 2;
    return HasFailure() || waited == ACL_ERROR_RT_DEVICE_TASK_ABORT;
  })) << "who waited was not told";
}

// --- what a device says about itself ------------------------------------------------------------------------------------

TEST_F(DeviceTest, StatusIsNormal) {
  auto status = ACL_RT_DEVICE_STATUS_END;
  ASSERT_ACL(aclrtQueryDeviceStatus(0, &status));
  EXPECT_EQ(status, ACL_RT_DEVICE_STATUS_NORMAL);
}

TEST_F(DeviceTest, UtilizationIsAPercentage) {
  const auto get = [] {
    aclrtUtilizationInfo info;
    std::memset(&info, 0x7f, sizeof info);
    info.utilizationExtend = nullptr;
    EXPECT_ACL(aclrtGetDeviceUtilizationRate(0, &info));
    return info;
  };
  for (const int32_t rate : {get().cubeUtilization, get().vectorUtilization, get().aicpuUtilization, get().memoryUtilization}) {
    EXPECT_GE(rate, -1);  // -1: not known
    EXPECT_LE(rate, 100);
  }
}

TEST_F(DeviceTest, SaturationModeIsKept) {
  auto original = ACL_RT_OVERFLOW_MODE_UNDEF, mode = ACL_RT_OVERFLOW_MODE_UNDEF;
  ASSERT_ACL(aclrtGetDeviceSatMode(&original));
  for (const auto wanted : {ACL_RT_OVERFLOW_MODE_SATURATION, ACL_RT_OVERFLOW_MODE_INFNAN}) {
    ASSERT_ACL(aclrtSetDeviceSatMode(wanted));
    ASSERT_ACL(aclrtGetDeviceSatMode(&mode));
    EXPECT_EQ(mode, wanted);
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtSetDeviceSatMode(aclrtFloatOverflowMode(-1)));
  ASSERT_ACL(aclrtSetDeviceSatMode(original));
}

TEST_F(TwoDevicesTest, PeersCanBeEnabledAndDisabled) {
  int32_t can = -1;
  ASSERT_ACL(aclrtDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  ASSERT_ACL(aclrtDeviceEnablePeerAccess(1, 0));
  EXPECT_ACL(aclrtDeviceDisablePeerAccess(1));
  EXPECT_REFUSED(aclrtDeviceDisablePeerAccess(1));
  EXPECT_REFUSED(aclrtDeviceEnablePeerAccess(0, 0)) << "a device is its own peer";
  EXPECT_REFUSED(aclrtDeviceEnablePeerAccess(1, 7));
}

TEST_F(DeviceTest, OverflowStatusIsReadAndResetInTheStreamsOrder) {
  Stream stream = make_stream();
  DeviceBuffer output = make_device_buffer(64);
  const auto overflowed = [&] {
    uint64_t words[8] = {};
    EXPECT_ACL(aclrtGetOverflowStatus(output, 64, stream));
    EXPECT_ACL(aclrtSynchronizeStream(stream));
    EXPECT_ACL(aclrtMemcpy(words, 64, output, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    return words[0] != 0;
  };
  ASSERT_ACL(aclrtResetOverflowStatus(stream));
  EXPECT_FALSE(overflowed());
  if (driver() != nullptr) {
    driver()->raise_overflow(static_cast<std::byte*>(static_cast<void*>(output)) + driver()->alias_offset);
    EXPECT_TRUE(overflowed());
    EXPECT_TRUE(overflowed()) << "reading the status cleared it";
    ASSERT_ACL(aclrtResetOverflowStatus(stream));
    EXPECT_FALSE(overflowed());
  }
  uint64_t on_stack[8] = {};
  EXPECT_REFUSED(aclrtGetOverflowStatus(output, 63, stream));
  EXPECT_REFUSED(aclrtGetOverflowStatus(on_stack, 64, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtGetOverflowStatus(nullptr, 64, stream));
}

TEST_F(DeviceTest, BareProcessNumberIsPositive) {
  int32_t pid = 0;
  ASSERT_ACL(aclrtDeviceGetBareTgid(&pid));
  EXPECT_GT(pid, 0);
}

TEST_F(DeviceTest, IdentifiersAreStableAndDiffer) {
  std::set<std::string> seen;
  for (int32_t number = 0; number < int32_t(device_count()); ++number) {
    aclrtUuid first{}, second{};
    ASSERT_ACL(aclrtDeviceGetUuid(number, &first));
    ASSERT_ACL(aclrtDeviceGetUuid(number, &second));
    EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);
    seen.emplace(first.bytes, sizeof first.bytes);
  }
  EXPECT_EQ(seen.size(), device_count());
}

TEST_F(DeviceTest, AttributesHaveSensibleValues) {
  const auto get = [](aclrtDevAttr attribute) {
    int64_t value = -1;
    EXPECT_ACL(aclrtGetDeviceInfo(0, attribute, &value));
    return value;
  };
  EXPECT_GT(get(ACL_DEV_ATTR_AICPU_CORE_NUM), 0);
  EXPECT_GT(get(ACL_DEV_ATTR_AICORE_CORE_NUM), 0);
  EXPECT_GT(get(ACL_DEV_ATTR_CUBE_CORE_NUM), 0);
  EXPECT_GT(get(ACL_DEV_ATTR_VECTOR_CORE_NUM), 0);
  EXPECT_GT(get(ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE), 1 << 20);
  EXPECT_GT(get(ACL_DEV_ATTR_L2_CACHE_SIZE), 0);
  EXPECT_GE(get(ACL_DEV_ATTR_PHY_CHIP_ID), 0);
  EXPECT_GT(get(ACL_DEV_ATTR_NPU_ARCH), 0);
  int64_t value = 0;
  EXPECT_REFUSED(aclrtGetDeviceInfo(0, aclrtDevAttr(99999), &value));
  EXPECT_REFUSED(aclrtGetDeviceInfo(0, aclrtDevAttr(-1), &value));
}

TEST_F(DeviceTest, HasNoHardwareErrors) {
  size_t count = 99;
  aclrtMemUceInfo memory[2] = {};
  aclrtErrorInfo error;
  std::memset(&error, 0x7f, sizeof error);
  ASSERT_ACL(aclrtGetMemUceInfo(0, memory, 2, &count));
  EXPECT_EQ(count, 0u);
  ASSERT_ACL(aclrtGetErrorVerbose(0, &error));
  EXPECT_EQ(error.errorType, ACL_RT_NO_ERROR);
  EXPECT_ACL(aclrtRepairError(0, &error));
}

TEST_F(DeviceTest, CoreLimitsCanBeSetAndReset) {
  for (const auto kind : {ACL_RT_DEV_RES_CUBE_CORE, ACL_RT_DEV_RES_VECTOR_CORE}) {
    uint32_t original = 0, value = 0;
    ASSERT_ACL(aclrtGetDeviceResLimit(0, kind, &original));
    EXPECT_GT(original, 1u);
    ASSERT_ACL(aclrtSetDeviceResLimit(0, kind, 1));
    ASSERT_ACL(aclrtGetDeviceResLimit(0, kind, &value));
    EXPECT_EQ(value, 1u);
    ASSERT_ACL(aclrtResetDeviceResLimit(0));
    ASSERT_ACL(aclrtGetDeviceResLimit(0, kind, &value));
    EXPECT_EQ(value, original);
    EXPECT_REFUSED(aclrtSetDeviceResLimit(0, kind, original + 1));
    EXPECT_REFUSED(aclrtSetDeviceResLimit(0, kind, 0));
  }
  uint32_t value = 0;
  EXPECT_REFUSED(aclrtGetDeviceResLimit(0, aclrtDevResLimitType(7), &value));
  EXPECT_REFUSED(aclrtSetDeviceResLimit(0, aclrtDevResLimitType(7), 1));
}

TEST_F(DeviceTest, PriorityRangeIsThatOfTheStreams) {
  int32_t least = -1, greatest = -1;
  ASSERT_ACL(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_NE(make_stream(uint32_t(least)).get(), nullptr);
  EXPECT_NE(make_stream(uint32_t(greatest)).get(), nullptr);
  aclrtStream stream = nullptr;
  EXPECT_REFUSED(aclrtCreateStreamWithConfig(&stream, uint32_t(least + 1), 0));
}

// --- which devices there are --------------------------------------------------------------------------------------------

class ChildDevices : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_ACL(aclInit(nullptr)); }
};

TEST_F(ChildDevices, AreThoseThatAreVisibleInThatOrder) {
  EXPECT_EQ(device_count(), 2u);
  int32_t number = -1;
  ASSERT_ACL(aclrtGetLogicDevIdByUserDevId(0, &number));
  EXPECT_EQ(number, 2);
  ASSERT_ACL(aclrtGetLogicDevIdByUserDevId(1, &number));
  EXPECT_EQ(number, 1);
  EXPECT_ACL(aclrtSetDevice(1));
  EXPECT_EQ(current_device(), 1);
  EXPECT_ACL(aclrtResetDevice(1));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(2));
}

TEST_F(ChildDevices, CanAllBeHidden) {
  EXPECT_EQ(device_count(), 0u);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_NO_DEVICE, aclrtSetDevice(0));
  EXPECT_RECENT_ERROR("ASCEND_RT_VISIBLE_DEVICES");
}

TEST_F(ChildDevices, AreAsManyAsTheSettingSays) { EXPECT_EQ(device_count(), 3u); }

TEST_F(DeviceTest, VisibleDevicesAreASetting) {
  REQUIRE_SOFTNPU();
  EXPECT_CHILD_PASSES("ChildDevices.AreThose*", {"SOFTNPU_DEVICE_COUNT=4", "ASCEND_RT_VISIBLE_DEVICES=2,1"});
  EXPECT_CHILD_PASSES("ChildDevices.CanAllBeHidden", {"ASCEND_RT_VISIBLE_DEVICES="});
  EXPECT_CHILD_PASSES("ChildDevices.AreAsManyAsTheSettingSays", {"SOFTNPU_DEVICE_COUNT=3", "ASCEND_RT_VISIBLE_DEVICES=0,1,2"});
}

}  // namespace
}  // namespace softnpu::test
