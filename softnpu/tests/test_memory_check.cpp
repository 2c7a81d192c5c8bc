// SOFTNPU_MEMORY_CHECK: errors are planted through the address that kernels use, in processes of their own.
#include <signal.h>

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

TEST_F(ChildRedZone, FindsWritesBeforeAndBehind) {
  for (const size_t bytes : kSizes) {
    for (const ptrdiff_t offset :
         {ptrdiff_t{-1}, ptrdiff_t{-200}, static_cast<ptrdiff_t>(bytes), static_cast<ptrdiff_t>(bytes) + 100}) {
      void* const block = make_device_buffer(bytes).release();
      kernel_view(block)[offset] = 0x11;
      EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, aclrtFree(block)) << offset << " of " << bytes;
      const std::string message = recent_error();
      EXPECT_NE(message.find("offset " + std::to_string(offset)), std::string::npos) << message;
      EXPECT_NE(message.find(std::to_string(bytes) + " bytes"), std::string::npos) << message;
      EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(block)) << "it was freed all the same";
      EXPECT_RECENT_ERROR("double free");
    }
  }
}

TEST_F(ChildRedZone, LeavesGoodProgramsAlone) {
  for (const size_t bytes : kSizes) {
    DeviceBuffer buffer = device_copy_of(pattern(bytes));
    EXPECT_EQ(download(buffer, bytes), pattern(bytes));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(at(buffer, -1), 1, 0, 1)) << "a red zone is not the program's";
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(buffer, bytes + 1, 0, bytes + 1));
    EXPECT_ACL(aclrtFree(buffer.release()));
  }
}

TEST_F(MemoryCheckTest, RedZonesFindWritesOutsideOfBlocks) {
  EXPECT_CHILD_PASSES("ChildRedZone.*", checking("redzone"));
  EXPECT_CHILD_PASSES("ChildRedZone.*", checking("redzone,poison"));
}

using ChildPoison = AclFixture;

TEST_F(ChildPoison, FillsFreshAndFreedMemory) {
  for (const size_t bytes : kSizes) {
    void* const block = make_device_buffer(bytes).release();
    const uint8_t* const view = kernel_view(block);
    EXPECT_EQ(download(block, bytes), Bytes(bytes, 0xFF)) << "fresh memory reads as NaN";
    EXPECT_ACL(aclrtFree(block));
    EXPECT_TRUE(std::all_of(view, view + bytes, [](uint8_t byte) { return byte == 0xDB; })) << bytes;
  }
}

TEST_F(MemoryCheckTest, PoisonMarksFreshAndFreedMemory) {
  EXPECT_CHILD_PASSES("ChildPoison.*", checking("poison"));
  EXPECT_CHILD_PASSES("ChildPoison.*", checking(" poison , redzone "));
}

// Each of these ends with a fault.
class ChildGuard : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    signal(SIGSEGV, SIG_DFL);
  }
  static void touch(const void* device_address, ptrdiff_t offset) {
    static_cast<volatile uint8_t*>(kernel_view(device_address))[offset] = 1;
  }
};

TEST_F(ChildGuard, BehindASmallBlock) {
  void* const block = make_device_buffer(100).release();
  touch(block, 99);
  touch(block, 128);
}

TEST_F(ChildGuard, BehindALargeBlock) {
  void* const block = make_device_buffer(size_t{1} << 20).release();
  touch(block, (1 << 20) - 1);
  touch(block, 1 << 20);
}

TEST_F(ChildGuard, FarBeforeABlock) {
  void* const block = make_device_buffer(100).release();
  touch(block, 0);
  touch(block, -(64 << 10));
}

TEST_F(ChildGuard, InAFreedBlock) {
  void* const block = make_device_buffer(100).release();
  touch(block, 0);
  EXPECT_ACL(aclrtFree(block));
  touch(block, 0);
}

using ChildGuarded = AclFixture;

TEST_F(ChildGuarded, GoodProgramsRun) {
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

TEST_F(MemoryCheckTest, GuardPagesMakeKernelsFaultOutsideOfBlocks) {
  for (const char* const test : {"ChildGuard.BehindASmallBlock", "ChildGuard.BehindALargeBlock", "ChildGuard.FarBeforeABlock",
                                 "ChildGuard.InAFreedBlock"}) {
    const Child child = run_child(test, checking("guard"));
    EXPECT_EQ(child.exit_code, -SIGSEGV) << test << "\n" << child.output;
  }
  EXPECT_CHILD_PASSES("ChildGuarded.*", checking("guard"));
  EXPECT_CHILD_PASSES("ChildGuarded.*", checking("guard,redzone,poison"));
}

}  // namespace
}  // namespace softnpu::test
