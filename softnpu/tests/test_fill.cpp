// Other operations on device memory in the order of a stream: fills, words that streams write and wait for, cache operations, the
// overflow status.
#include <algorithm>
#include <cstring>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

using FillTest = AclFixture;

TEST_F(FillTest, MemsetWritesTheLowByteAndNothingElse) {
  DeviceBuffer device = device_copy_of(Bytes(100, 1));
  EXPECT_ACL(aclrtMemset(at(device, 10), 90, 0x1FE, 5));
  Bytes expected(100, 1);
  std::fill_n(expected.begin() + 10, 5, 0xFE);
  EXPECT_EQ(download(device, 100), expected);
  EXPECT_ACL(aclrtMemset(device, 100, -1, 100));
  EXPECT_EQ(download(device, 100), Bytes(100, 0xFF));
}

TEST_F(FillTest, AnAsynchronousMemsetKeepsTheOrderOfItsStream) {
  Stream stream = make_stream();
  DeviceBuffer device = device_copy_of(Bytes(100, 1));
  PinnedBuffer back = make_pinned_buffer(100);
  Gate gate(stream);
  ASSERT_ACL(aclrtMemsetAsync(device, 100, 2, 100, stream));
  ASSERT_ACL(aclrtMemcpyAsync(back, 100, device, 100, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  ASSERT_ACL(aclrtMemsetAsync(device, 100, 3, 100, stream));
  EXPECT_EQ(download(device, 100), Bytes(100, 1));
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(bytes_at(back, 100), Bytes(100, 2));
  EXPECT_EQ(download(device, 100), Bytes(100, 3));
}

TEST_F(FillTest, ImpossibleFillsAreRefused) {
  DeviceBuffer device = make_device_buffer(128);
  Bytes host(64);
  for (const bool is_async : {false, true}) {
    const auto fill = [&](void* pointer, size_t room, size_t count) {
      return is_async ? aclrtMemsetAsync(pointer, room, 0, count, nullptr) : aclrtMemset(pointer, room, 0, count);
    };
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, fill(device, 127, 128));
    EXPECT_RECENT_ERROR("maxCount");
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, fill(device, 128, 0));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, fill(device, 8192, 8192));
    EXPECT_RECENT_ERROR("past the end");
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, fill(reinterpret_cast<void*>(0xDEADBEEFDEADBEEF), 64, 64));
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemsetAsync(host.data(), 64, 0, 64, nullptr));
}

TEST_F(FillTest, AStreamWaitsForAValue) {
  struct Condition {
    uint32_t flag;
    uint64_t before;
    uint64_t wanted;
    uint64_t after;
  };
  for (const Condition& one :
       {Condition{ACL_STREAM_WAIT_VALUE_GEQ, 4, 5, 6}, Condition{ACL_STREAM_WAIT_VALUE_EQ, 9, 5, 5},
        Condition{ACL_STREAM_WAIT_VALUE_AND, 3, 4, 12}, Condition{ACL_STREAM_WAIT_VALUE_NOR, UINT64_MAX, 4, 1}}) {
    Stream waiter = make_stream();
    Stream writer = make_stream();
    DeviceBuffer word = make_device_buffer(64);
    ASSERT_ACL(aclrtValueWrite(word, one.before, 0, writer));
    ASSERT_ACL(aclrtSynchronizeStream(writer));
    ASSERT_ACL(aclrtValueWait(word, one.wanted, one.flag, waiter));
    Flag passed = signal_when_run(waiter);
    EXPECT_FALSE(passed.within(20ms)) << "flag " << one.flag;
    ASSERT_ACL(aclrtValueWrite(word, one.after, 0, writer));
    EXPECT_TRUE(passed.within(kPatience)) << "flag " << one.flag;
    uint64_t value = 0;
    EXPECT_ACL(aclrtMemcpy(&value, 8, word, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT_EQ(value, one.after);
  }
}

TEST_F(FillTest, ValuesNeedAlignedDeviceMemoryAndKnownFlags) {
  DeviceBuffer word = make_device_buffer(64);
  uint64_t host = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_ADDR_UNALIGNED, aclrtValueWrite(at(word, 4), 1, 0, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_ADDR_UNALIGNED, aclrtValueWait(at(word, 1), 1, 0, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(word, 1, 1, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(word, 1, 4, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(&host, 1, 0, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(&host, 1, 0, nullptr));
}

TEST_F(FillTest, CacheOperationsAreCheckedAndChangeNothing) {
  DeviceBuffer device = device_copy_of(pattern(256));
  for (const auto type : {ACL_RT_CMO_TYPE_PREFETCH, ACL_RT_CMO_TYPE_WRITEBACK, ACL_RT_CMO_TYPE_INVALID, ACL_RT_CMO_TYPE_FLUSH}) {
    EXPECT_ACL(aclrtCmoAsync(device, 256, type, nullptr)) << type;
  }
  EXPECT_ACL(aclrtSynchronizeStream(nullptr));
  EXPECT_EQ(download(device, 256), pattern(256));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCmoAsync(device, 256, static_cast<aclrtCmoType>(4), nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCmoAsync(device, 0, ACL_RT_CMO_TYPE_PREFETCH, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCmoAsync(device, 9000, ACL_RT_CMO_TYPE_PREFETCH, nullptr));
  int host = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtCmoAsync(&host, 4, ACL_RT_CMO_TYPE_PREFETCH, nullptr));
}

TEST_F(FillTest, OverflowStatusIsWrittenInTheOrderOfTheStream) {
  REQUIRE_SOFTNPU();
  Stream stream = make_stream();
  DeviceBuffer output = device_copy_of(Bytes(64, 7));
  const auto overflowed = [&] {
    EXPECT_ACL(aclrtGetOverflowStatus(output, 64, stream));
    EXPECT_ACL(aclrtSynchronizeStream(stream));
    const Bytes status = download(output, 64);
    EXPECT_TRUE(std::all_of(status.begin() + 8, status.end(), [](uint8_t byte) { return byte == 0; }));
    return status[0] != 0;
  };
  EXPECT_ACL(aclrtResetOverflowStatus(stream));
  EXPECT_FALSE(overflowed());
  driver()->raise_overflow(static_cast<std::byte*>(static_cast<void*>(output)) + driver()->alias_offset);
  EXPECT_TRUE(overflowed());
  EXPECT_TRUE(overflowed()) << "reading the status reset it";
  EXPECT_ACL(aclrtResetOverflowStatus(stream));
  EXPECT_FALSE(overflowed());

  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtGetOverflowStatus(output, 63, stream));
  Bytes host(64);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtGetOverflowStatus(host.data(), 64, stream));
}

}  // namespace
}  // namespace softnpu::test
