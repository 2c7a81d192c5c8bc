// What a device says about itself, and which devices are visible.
#include <cstring>
#include <set>

#include "testing/devices.h"

namespace softnpu::test {
namespace {

using DeviceInfoTest = AclFixture;

TEST_F(DeviceInfoTest, StatusIsNormal) {
  auto status = ACL_RT_DEVICE_STATUS_END;
  ASSERT_ACL(aclrtQueryDeviceStatus(0, &status));
  EXPECT_EQ(status, ACL_RT_DEVICE_STATUS_NORMAL);
}

TEST_F(DeviceInfoTest, UtilizationIsAPercentage) {
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

TEST_F(DeviceInfoTest, SaturationModeCanBeSet) {
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

TEST_F(DeviceInfoTest, OverflowStatusIsReadAndResetInTheStreamsOrder) {
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

TEST_F(DeviceInfoTest, BareTgidIsAPid) {
  int32_t pid = 0;
  ASSERT_ACL(aclrtDeviceGetBareTgid(&pid));
  EXPECT_GT(pid, 0);
}

TEST_F(DeviceInfoTest, IdentifiersAreStableAndDiffer) {
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

TEST_F(DeviceInfoTest, AttributesHaveSensibleValues) {
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

TEST_F(DeviceInfoTest, ReportsNoHardwareErrors) {
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

TEST_F(DeviceInfoTest, CoreLimitsCanBeSetAndReset) {
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

TEST_F(DeviceInfoTest, PriorityRangeIsAcceptedByStreams) {
  int32_t least = -1, greatest = -1;
  ASSERT_ACL(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_NE(make_stream(uint32_t(least)).get(), nullptr);
  EXPECT_NE(make_stream(uint32_t(greatest)).get(), nullptr);
  aclrtStream stream = nullptr;
  EXPECT_REFUSED(aclrtCreateStreamWithConfig(&stream, uint32_t(least + 1), 0));
}

class ChildDevices : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_ACL(aclInit(nullptr)); }
};

TEST_F(ChildDevices, AreTheVisibleOnesInTheirOrder) {
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

TEST_F(DeviceInfoTest, VisibleDevicesAreReadFromTheEnvironment) {
  REQUIRE_SOFTNPU();
  EXPECT_CHILD_PASSES("ChildDevices.AreTheVisible*", {"SOFTNPU_DEVICE_COUNT=4", "ASCEND_RT_VISIBLE_DEVICES=2,1"});
  EXPECT_CHILD_PASSES("ChildDevices.CanAllBeHidden", {"ASCEND_RT_VISIBLE_DEVICES="});
  EXPECT_CHILD_PASSES("ChildDevices.AreAsManyAsTheSettingSays", {"SOFTNPU_DEVICE_COUNT=3", "ASCEND_RT_VISIBLE_DEVICES=0,1,2"});
}

}  // namespace
}  // namespace softnpu::test
