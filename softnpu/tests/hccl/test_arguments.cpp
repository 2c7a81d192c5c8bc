// Wrong arguments, settings and the configuration structure, on a communicator of one rank.
#include <cstring>

#include "hccl/world.h"

namespace softnpu::test {
namespace {

class Arguments : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    HcclRootInfo info{};
    ASSERT_HCCL(HcclGetRootInfo(&info));
    ASSERT_HCCL(HcclCommInitRootInfo(1, &info, 0, &comm_));
  }
  void TearDown() override {
    EXPECT_HCCL(HcclCommDestroy(comm_));
    AclFixture::TearDown();
  }
  HcclResult init(const HcclCommConfig& config, HcclComm* comm) {
    HcclRootInfo info{};
    EXPECT_HCCL(HcclGetRootInfo(&info));
    return HcclCommInitRootInfoConfig(1, &info, 0, &config, comm);
  }

  HcclComm comm_ = nullptr;
};

TEST_F(Arguments, NullIsRefused) {
  alignas(64) static char memory[8192];
  void* const buffer = memory;
  const HcclComm valid_comm = comm_;
#define HCCL_NULL_CALL(function, argument, call)             \
  {                                                          \
    SCOPED_TRACE(#function);                                 \
    EXPECT_HCCL_ERROR(HCCL_E_PTR, call);                     \
    EXPECT_RECENT_ERROR("argument '" #argument "' is null"); \
  }
#include "hccl_bad_arguments.inc"
}

TEST_F(Arguments, WhatIsNoCommunicatorIsRefused) {
  alignas(64) static char memory[8192];
  void* const buffer = memory;
  for (void* const garbage :
       {static_cast<void*>(memory), reinterpret_cast<void*>(uintptr_t{16}), reinterpret_cast<void*>(~uintptr_t{0})}) {
#define HCCL_BAD_COMM_CALL(function, call)                        \
  {                                                               \
    SCOPED_TRACE(#function);                                      \
    EXPECT_HCCL_ERROR(HCCL_E_PARA, call);                         \
    EXPECT_RECENT_ERROR("is not a communicator of this process"); \
  }
#include "hccl_bad_arguments.inc"
  }
}

TEST_F(Arguments, WhatIsNotSupportedSaysSo) {
  alignas(64) static char memory[8192];
  void* const buffer = memory;
  const HcclComm valid_comm = comm_;
#define HCCL_REFUSED_CALL(function, call)        \
  {                                              \
    EXPECT_HCCL_ERROR(HCCL_E_NOT_SUPPORT, call); \
    EXPECT_RECENT_ERROR(#function);              \
  }
#include "hccl_bad_arguments.inc"
}

TEST_F(Arguments, ADestroyedCommunicatorIsRefused) {
  HcclRootInfo info{};
  HcclComm comm = nullptr;
  ASSERT_HCCL(HcclGetRootInfo(&info));
  ASSERT_HCCL(HcclCommInitRootInfo(1, &info, 0, &comm));
  EXPECT_HCCL(HcclCommDestroy(comm));
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommDestroy(comm));
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclBarrier(comm, nullptr));
}

TEST_F(Arguments, ValuesAreChecked) {
  DeviceBuffer buffer = make_device_buffer(256);
  char host[256];
  const auto sum = [&](void* send, void* receive, uint64_t count, int type = HCCL_DATA_TYPE_FP32, int op = HCCL_REDUCE_SUM) {
    return HcclAllReduce(send, receive, count, HcclDataType(type), HcclReduceOp(op), comm_, nullptr);
  };
  EXPECT_HCCL_ERROR(HCCL_E_PARA, sum(buffer, buffer, 8, 99));
  EXPECT_RECENT_ERROR("'dataType' (99)");
  EXPECT_HCCL_ERROR(HCCL_E_PARA, sum(buffer, buffer, 8, 13));
  EXPECT_HCCL_ERROR(HCCL_E_PARA, sum(buffer, buffer, 8, HCCL_DATA_TYPE_FP32, 4));
  EXPECT_RECENT_ERROR("'op' (4)");
  EXPECT_HCCL_ERROR(HCCL_E_NOT_SUPPORT, sum(buffer, buffer, 8, HCCL_DATA_TYPE_FP8E4M3));
  EXPECT_RECENT_ERROR("float8_e4m3 can be moved but not reduced");
  EXPECT_HCCL_ERROR(HCCL_E_PTR, sum(nullptr, buffer, 8));
  EXPECT_HCCL_ERROR(HCCL_E_PTR, sum(buffer, nullptr, 8));
  EXPECT_HCCL(sum(nullptr, nullptr, 0));
  EXPECT_HCCL_ERROR(HCCL_E_PARA, sum(host, buffer, 8));
  EXPECT_RECENT_ERROR("'sendBuf'");
  EXPECT_HCCL_ERROR(HCCL_E_PARA, sum(buffer, buffer, 1 << 20));
  EXPECT_RECENT_ERROR("past the end");
  EXPECT_HCCL_ERROR(HCCL_E_PARA, sum(buffer, buffer, ~uint64_t{0}));
  EXPECT_HCCL_ERROR(HCCL_E_PARA, sum(at(buffer, 1), buffer, 8));
  EXPECT_RECENT_ERROR("not aligned");
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclBroadcast(buffer, 8, HCCL_DATA_TYPE_FP32, 1, comm_, nullptr));
  EXPECT_RECENT_ERROR("'root' is 1");
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclSend(buffer, 8, HCCL_DATA_TYPE_FP32, 0, comm_, nullptr));
  EXPECT_RECENT_ERROR("own rank");
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclRecv(buffer, 8, HCCL_DATA_TYPE_FP32, 4, comm_, nullptr));
  EXPECT_RECENT_ERROR("'srcRank' is 4");
  EXPECT_HCCL_ERROR(HCCL_E_RUNTIME, HcclBarrier(comm_, host));
  EXPECT_RECENT_ERROR("'stream'");
  EXPECT_ACL(aclrtSynchronizeStream(nullptr));
}

TEST_F(Arguments, MemoryOfAnotherDeviceIsRefused) {
  ASSERT_ACL(aclrtSetDevice(1));
  void* other = nullptr;
  ASSERT_ACL(aclrtMalloc(&other, 256, ACL_MEM_MALLOC_HUGE_FIRST));
  ASSERT_ACL(aclrtSetDevice(0));
  DeviceBuffer buffer = make_device_buffer(256);
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclAllGather(other, buffer, 8, HCCL_DATA_TYPE_FP32, comm_, nullptr));
  EXPECT_RECENT_ERROR("memory of device 1");
  ASSERT_ACL(aclrtSetDevice(1));
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclBarrier(comm_, nullptr));
  EXPECT_RECENT_ERROR("belongs to device 0");
  EXPECT_ACL(aclrtFree(other));
  EXPECT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL(aclrtResetDevice(0));
  EXPECT_ACL(aclrtResetDevice(0));
  ASSERT_ACL(aclrtSetDevice(0));
}

TEST_F(Arguments, ConfigurationsOfAllVersions) {
  struct Version {
    size_t bytes;
    uint32_t version;
  };
  for (const auto [bytes, version] : {Version{300, 5}, Version{312, 6}, Version{2232, 10}, Version{2248, 11}, Version{24, 1}}) {
    SCOPED_TRACE(version);
    alignas(8) char memory[4096];
    std::memset(memory, 0xAB, sizeof memory);  // bytes behind the caller's version must not be read
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    std::strcpy(config.hcclCommName, "by name");
    const uint64_t size = bytes;
    std::memcpy(memory, &config, std::min(bytes, sizeof config));
    std::memcpy(memory, &size, sizeof size);
    std::memcpy(memory + 12, &version, sizeof version);
    HcclComm comm = nullptr;
    ASSERT_HCCL(init(*reinterpret_cast<HcclCommConfig*>(memory), &comm));
    char name[COMM_NAME_MAX_LENGTH];
    EXPECT_HCCL(HcclGetCommName(comm, name));
    if (bytes > 160) {
      EXPECT_STREQ(name, "by name");
    }
    EXPECT_HCCL(HcclCommDestroy(comm));
  }
  HcclComm comm = nullptr;
  HcclCommConfig config{};
  EXPECT_HCCL_ERROR(HCCL_E_PARA, init(config, &comm));
  EXPECT_RECENT_ERROR("HcclCommConfigInit");
  HcclCommConfigInit(&config);
  config.hcclExecTimeOut = -5;
  EXPECT_HCCL_ERROR(HCCL_E_PARA, init(config, &comm));
  EXPECT_RECENT_ERROR("hcclExecTimeOut");
}

TEST_F(Arguments, Settings) {
  HcclConfigValue value{};
  value.value = 1;
  EXPECT_HCCL(HcclSetConfig(HCCL_DETERMINISTIC, value));
  value.value = 0;
  EXPECT_HCCL(HcclGetConfig(HCCL_DETERMINISTIC, &value));
  EXPECT_EQ(value.value, 1);
  value.value = 7;
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclSetConfig(HCCL_DETERMINISTIC, value));
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclGetConfig(HcclConfig(9), &value));
  value.value = 2;
  EXPECT_HCCL(HcclSetCommConfig(comm_, HCCL_DETERMINISTIC, value));
  value.value = 0;
  EXPECT_HCCL(HcclGetCommConfig(comm_, HCCL_DETERMINISTIC, &value));
  EXPECT_EQ(value.value, 2);
  EXPECT_EQ(HcclGetCommConfigCapability(), uint32_t(HCCL_COMM_CONFIG_RESERVED));
  EXPECT_STREQ(HcclGetErrorString(HCCL_E_TIMEOUT), "a rank did not respond in time");
  EXPECT_STREQ(HcclGetErrorString(HcclResult(-3)), "unknown error code");
  EXPECT_STREQ(HcclGetErrorString(HcclResult(1000)), "unknown error code");
}

}  // namespace
}  // namespace softnpu::test
