// One test per sentence of runtime/device/device.h, and of the device functions.
#include <unistd.h>

#include <atomic>
#include <limits>
#include <thread>

#include "testing/devices.h"

namespace softnpu::test {
namespace {

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

TEST_F(TwoDevicesTest, EventsOrderStreamsOfTwoDevices) {
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

// --- resetting ----------------------------------------------------------------------------------------------------------

TEST_F(TwoDevicesTest, ResetUndoesOneSet) {
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtResetDevice(1));
  EXPECT_TRUE(is_active(1)) << "the first of two resets released the device";
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

TEST_F(TwoDevicesTest, ResetForceUndoesAllSets) {
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

TEST_F(TwoDevicesTest, ResetReturnsAFailureThatWasNotReported) {
  REQUIRE_SOFTNPU();
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(launch(nullptr, failing_task("aclnnBroken")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtResetDevice(1));
  EXPECT_FALSE(is_active(1));
  ASSERT_ACL(aclrtSetDevice(1));
  EXPECT_ACL(aclrtSynchronizeDevice());
  ASSERT_ACL(aclrtResetDevice(1));
}

TEST_F(TwoDevicesTest, ResettingOneDeviceDoesNotChangeTheOthers) {
  Stream stream = make_stream();
  ASSERT_ACL(aclrtSetDevice(1));
  ASSERT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_TRUE(signal_when_run(stream).within(kPatience));
  ASSERT_ACL(aclrtResetDevice(0));
}

// --- waiting and aborting -----------------------------------------------------------------------------------------------

// Slots of streams are reused: a call that waits for a list of streams must not use the next stream of a slot.
class ReusedSlotTest : public TwoDevicesTest {
 protected:
  void SetUp() override {
    TwoDevicesTest::SetUp();
    ASSERT_ACL(aclrtCreateContext(&context_, 0));
  }
  // Another thread destroys `stream` and then creates a stream on device 1 that gets its slot.
  std::thread replace(aclrtStream stream, aclrtStream* next, const Flag& done) {
    int32_t number = -1;
    EXPECT_ACL(aclrtStreamGetId(stream, &number));
    std::thread replacer([=, this] {
      EXPECT_ACL(aclrtSetDevice(1));  // now, so that its default stream does not get the slot
      EXPECT_ACL(aclrtSetCurrentContext(context_));
      replacer_ = gettid();
      EXPECT_ACL(aclrtDestroyStream(stream));
      EXPECT_ACL(aclrtSetDevice(1));
      EXPECT_TRUE(eventually([&] {  // the worker of the destroyed stream frees the slot later
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

TEST_F(ReusedSlotTest, DestroyingAContextDoesNotChangeStreamsOfOtherDevices) {
  aclrtStream second = make_stream().release(), first = make_stream().release(), next = nullptr;
  Gate first_gate(first), second_gate(second);
  const Flag replaced;
  std::thread replacer = replace(second, &next, replaced);
  std::thread destroyer([&] { EXPECT_ACL(aclrtDestroyContext(context_)); });
  EXPECT_TRUE(eventually([&] { return aclrtSetCurrentContext(context_) != ACL_SUCCESS; }));
  std::this_thread::sleep_for(
      50ms);  // so that the list of streams exists; where the pause is too short the test passes without checking
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

TEST_F(ReusedSlotTest, SynchronizingADeviceWaitsForNoOtherDevice) {
  aclrtStream first = make_stream().release(), second = make_stream().release(), next = nullptr;
  Gate first_gate(first), second_gate(second);
  const Flag replaced, synchronized;
  std::thread replacer = replace(second, &next, replaced);
  std::thread waiter([&] {
    EXPECT_ACL(aclrtSetCurrentContext(context_));
    EXPECT_ACL(aclrtSynchronizeDevice());
    synchronized.set();
  });
  std::this_thread::sleep_for(
      50ms);  // so that the list of streams exists; where the pause is too short the test passes without checking
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

TEST_F(DeviceTest, SynchronizeSucceedsWhileAnotherThreadDestroysAStream) {
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

TEST_F(DeviceTest, SynchronizeWithTimeoutReturnsAndTheWorkContinues) {
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

TEST_F(DeviceTest, SynchronizeWithTimeoutHasOneLimitForAllStreams) {
  std::vector<Stream> streams;
  for (int count = 0; count < 5; ++count) streams.push_back(make_stream());
  std::vector<std::unique_ptr<Gate>> gates;
  for (const Stream& stream : streams) gates.push_back(std::make_unique<Gate>(stream));
  EXPECT_TRUE(eventually([] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(50));
    return std::chrono::steady_clock::now() - begin < 5 * 50ms;
  })) << "the limit applied to each stream in turn";
}

// The test cannot see whether the waiter is already in its call: it tries several rounds with longer and longer pauses.
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
    EXPECT_TRUE(signal_when_run(first).within(kPatience)) << "the stream cannot be used after an abort";
    EXPECT_ACL(aclrtSynchronizeDevice());
    pause *= 2;
    return HasFailure() || waited == ACL_ERROR_RT_DEVICE_TASK_ABORT;
  })) << "the waiting call did not return ACL_ERROR_RT_DEVICE_TASK_ABORT";
}

}  // namespace
}  // namespace softnpu::test
