// SOFTNPU_MEMORY_CHECK. The tests write through the addresses that kernels use, in child processes.
#include <algorithm>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

class MemoryCheckTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_SOFTNPU(); }
};

constexpr size_t kSizes[] = {100, 4096, 40'000, size_t{3} << 20};

uint8_t* kernel_view(const void* device_address) {
  return reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(device_address) + static_cast<uintptr_t>(driver()->alias_offset));
}

std::vector<std::string> checking(const char* what) { return {std::string("SOFTNPU_MEMORY_CHECK=") + what}; }

using ChildRedZone = AclFixture;

TEST_F(ChildRedZone, FindsWritesBeforeAndAfterABlock) {
  for (const size_t bytes : kSizes) {
    for (const ptrdiff_t offset :
         {ptrdiff_t{-1}, ptrdiff_t{-200}, static_cast<ptrdiff_t>(bytes), static_cast<ptrdiff_t>(bytes) + 100}) {
      void* const block = make_device_buffer(bytes).release();
      kernel_view(block)[offset] = 0x11;
      EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, aclrtFree(block)) << offset << " of " << bytes;
      const std::string message = recent_error();
      EXPECT_NE(message.find("offset " + std::to_string(offset)), std::string::npos) << message;
      EXPECT_NE(message.find(std::to_string(bytes) + " bytes"), std::string::npos) << message;
      EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(block)) << "the block was not freed";
      EXPECT_RECENT_ERROR("double free");
    }
  }
}

// A task that checks the red zones of its tensors at its end, like the tasks of the operator library.
Task planted_write(void* block, ptrdiff_t offset) {
  return {.run =
              [=](char* message) {
                kernel_view(block)[offset] = 0x11;
                return driver()->check_zones(kernel_view(block), message);
              },
          .name = "planted"};
}

TEST_F(ChildRedZone, TaskThatWroteOutsideFailsOnce) {
  const Stream stream = make_stream();
  for (const size_t bytes : kSizes) {
    const auto end = static_cast<ptrdiff_t>(bytes);
    for (const ptrdiff_t offset : {ptrdiff_t{-1}, ptrdiff_t{-200}, end, end + 100}) {
      const DeviceBuffer block = make_device_buffer(bytes);
      ASSERT_ACL(launch(stream, planted_write(block, end - 1)));
      EXPECT_ACL(aclrtSynchronizeStream(stream));
      ASSERT_ACL(launch(stream, planted_write(block, offset)));
      EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, aclrtSynchronizeStream(stream)) << offset << " of " << bytes;
      const std::string message = recent_error();
      for (const std::string& part : {std::string("task 'planted' failed"), "allocation of " + std::to_string(bytes) + " bytes",
                                      "offset " + std::to_string(offset)}) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
      }
      ASSERT_ACL(launch(stream, planted_write(block, 0)));
      EXPECT_ACL(aclrtSynchronizeStream(stream)) << "the next task failed";
    }
  }
}

TEST_F(ChildRedZone, OtherAddressesHaveNoZones) {
  char message[SOFTNPU_TASK_MESSAGE];
  void* const block = make_device_buffer(100).release();
  kernel_view(block)[100] = 0x11;
  EXPECT_ACL(driver()->check_zones(message, message)) << "host memory";
  EXPECT_ACL(driver()->check_zones(kernel_view(block) + (8 << 20), message)) << "never allocated";
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, driver()->check_zones(kernel_view(block) + 50, message));
  kernel_view(block)[100] = 0x11;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, aclrtFree(block));
  EXPECT_ACL(driver()->check_zones(kernel_view(block), message)) << "freed";
}

TEST_F(ChildRedZone, DoesNotChangeCorrectPrograms) {
  for (const size_t bytes : kSizes) {
    DeviceBuffer buffer = device_copy_of(pattern(bytes));
    EXPECT_EQ(download(buffer, bytes), pattern(bytes));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(at(buffer, -1), 1, 0, 1))
        << "a red zone was accepted as memory of the program";
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(buffer, bytes + 1, 0, bytes + 1));
    EXPECT_ACL(aclrtFree(buffer.release()));
  }
}

using ChildWithoutZones = AclFixture;

TEST_F(ChildWithoutZones, NothingIsChecked) { EXPECT_EQ(driver()->check_zones, nullptr); }

TEST_F(MemoryCheckTest, ZonesAreNotCheckedByDefault) {
  EXPECT_CHILD_PASSES("ChildWithoutZones.*", checking("none"));
  EXPECT_CHILD_PASSES("ChildWithoutZones.*", checking("poison,guard"));
}

TEST_F(MemoryCheckTest, RedZonesFindWritesOutsideOfBlocks) {
  EXPECT_CHILD_PASSES("ChildRedZone.*", checking("redzone"));
  EXPECT_CHILD_PASSES("ChildRedZone.*", checking("redzone,poison"));
}

using ChildPoison = AclFixture;

TEST_F(ChildPoison, FillsNewAndFreedMemory) {
  for (const size_t bytes : kSizes) {
    void* const block = make_device_buffer(bytes).release();
    const uint8_t* const view = kernel_view(block);
    EXPECT_EQ(download(block, bytes), Bytes(bytes, 0xFF)) << "new memory is not NaN";
    EXPECT_ACL(aclrtFree(block));
    EXPECT_TRUE(std::all_of(view, view + bytes, [](uint8_t byte) { return byte == 0xDB; })) << bytes;
  }
}

// The program frees memory without waiting for a stream that reads it.
TEST_F(ChildPoison, LateReadersReadThePattern) {
  const Stream stream = make_stream();
  void* const block = device_copy_of(pattern(4096)).release();
  DeviceBuffer copy = make_device_buffer(4096);
  const Gate gate(stream);
  ASSERT_ACL(aclrtMemcpyAsync(copy, 4096, block, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  EXPECT_ACL(aclrtFree(block));
  gate.open();
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(download(copy, 4096), Bytes(4096, 0xDB));
}

TEST_F(MemoryCheckTest, PoisonFillsNewAndFreedMemory) {
  EXPECT_CHILD_PASSES("ChildPoison.*", checking("poison"));
  EXPECT_CHILD_PASSES("ChildPoison.*", checking(" poison , redzone "));
}

using ChildGuarded = AclFixture;

TEST_F(ChildGuarded, CorrectProgramsRun) {
  std::vector<DeviceBuffer> buffers;
  for (int round = 0; round < 3; ++round) {
    for (const size_t bytes : kSizes) {
      buffers.push_back(device_copy_of(pattern(bytes)));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back().get()) % 64, 0u);
      EXPECT_EQ(download(buffers.back(), bytes), pattern(bytes));
    }
    buffers.clear();
  }
}

// test_fault_report.cpp tests the faults of kernels in guard pages.
TEST_F(MemoryCheckTest, GuardPagesDoNotChangeCorrectPrograms) {
  EXPECT_CHILD_PASSES("ChildGuarded.*", checking("guard"));
  EXPECT_CHILD_PASSES("ChildGuarded.*", checking("guard,redzone,poison"));
}

}  // namespace
}  // namespace softnpu::test
