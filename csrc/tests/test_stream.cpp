// One test per sentence of stream.h, event.h and guard.h.
#include <c10/core/Event.h>
#include <gtest/gtest.h>

#include <set>

#include "core/guard.h"
#include "core/stream/event.h"
#include "gate.h"

namespace torch_npu {
namespace {

TEST(Device, CurrentDeviceBelongsToTheThread) {
  const BoundDevice bound(1);
  EXPECT_EQ(current_device(), 1);
  std::thread([] { EXPECT_EQ(current_device(), 0); }).join();
}

TEST(Device, AnAbsentDeviceIsRefusedAndNothingChanges) {
  for (const int bad : {2, 99, -2}) {
    try {
      set_device(checked_device(bad));
      FAIL() << bad;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("npu:0 to npu:1"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(Device, GuardRestoresTheDevice) {
  {
    const NPUGuard guard(npu_device(1));
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(Stream, PoolsHandOut32StreamsInTurn) {
  std::set<c10::StreamId> normal, high;
  std::set<aclrtStream> handles;
  for (int i = 0; i < 64; ++i) {
    for (const NPUStream stream : {getNPUStreamFromPool(), getNPUStreamFromPool(true)}) {
      (stream.priority() == 0 ? normal : high).insert(stream.id());
      handles.insert(stream.stream());
    }
  }
  EXPECT_EQ(normal.size(), 32u);
  EXPECT_EQ(high.size(), 32u);
  EXPECT_EQ(handles.size(), 64u);
  EXPECT_EQ(getNPUStreamFromPool(true).priority(), -1);
  EXPECT_EQ(getNPUStreamFromPool().priority(), 0);
}

TEST(Stream, CurrentStreamBelongsToThreadAndDevice) {
  const NPUStream stream = getNPUStreamFromPool();
  setCurrentNPUStream(stream);
  EXPECT_EQ(getCurrentNPUStream(), stream);
  EXPECT_EQ(getCurrentNPUStream(1), getDefaultNPUStream(1));
  std::thread([] { EXPECT_EQ(getCurrentNPUStream(), getDefaultNPUStream()); }).join();
  setCurrentNPUStream(getDefaultNPUStream());
}

TEST(Stream, PackingKeepsTheStream) {
  const NPUStream stream = getNPUStreamFromPool();
  const auto data = stream.unwrap().pack3();
  EXPECT_EQ(NPUStream(c10::Stream::unpack3(data.stream_id, data.device_index, data.device_type)), stream);
}

TEST(Stream, AnUnknownIdIsRefused) { EXPECT_THROW(NPUStream(0, 4 * 99 + 1).stream(), c10::Error); }

TEST(Stream, ExternalStreamsKeepTheirHandle) {
  aclrtStream handle = nullptr;
  bind_device();
  ACL_CALL(aclrtCreateStream, &handle);
  const NPUStream stream = externalStream(handle, 0);
  EXPECT_EQ(stream.stream(), handle);
  EXPECT_EQ(externalStream(handle, 0), stream);
  EXPECT_TRUE(stream.query());
  ACL_CALL(aclrtDestroyStream, handle);
}

TEST(Stream, QueryTellsWhetherWorkIsDone) {
  const NPUStream stream = getNPUStreamFromPool();
  Gate gate(stream);
  EXPECT_FALSE(stream.query());
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

TEST(Stream, DefaultStreamsOfDevicesAreDifferent) {
  Gate gate(getDefaultNPUStream(1));
  EXPECT_TRUE(getDefaultNPUStream(0).query());
  EXPECT_FALSE(getDefaultNPUStream(1).query());
  EXPECT_EQ(current_device(), 0);
}

TEST(Event, NeverRecordedCountsAsReached) {
  const NPUEvent event;
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.block(getDefaultNPUStream());
}

TEST(Event, OrdersTwoStreams) {
  const NPUStream producer = getNPUStreamFromPool(), consumer = getNPUStreamFromPool();
  Gate gate(producer);
  NPUEvent event;
  event.record(producer);
  event.block(consumer);
  NPUEvent after;
  after.record(consumer);
  EXPECT_FALSE(event.query());
  EXPECT_FALSE(after.query());
  gate.open();
  after.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(Event, OrdersStreamsOfTwoDevices) {
  const NPUStream producer = getDefaultNPUStream(1), consumer = getDefaultNPUStream(0);
  Gate gate(producer);
  NPUEvent event;
  event.record(producer);
  event.block(consumer);
  EXPECT_FALSE(consumer.query());
  gate.open();
  consumer.synchronize();
  EXPECT_THROW(event.record(consumer), c10::Error) << "it belongs to npu:1";
}

TEST(Event, TorchEventMeasuresTime) {
  c10::Event start(kDeviceType, c10::EventFlag::BACKEND_DEFAULT), end(kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
  const NPUStream stream = getNPUStreamFromPool();
  start.record(stream);
  start.synchronize();
  Gate gate(stream);
  end.record(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  gate.open();
  end.synchronize();
  EXPECT_GE(start.elapsedTime(end), 4.0);
}

}  // namespace
}  // namespace torch_npu
