// The address space of the devices: kernels can use it; the host and a forked child cannot.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

using ArenaTest = AclFixture;

// These tests need the plain signal, which sanitizers replace by a report.
void fault_plainly() { signal(SIGSEGV, SIG_DFL); }

uint8_t* alias_of(const void* pointer, size_t bytes) {
  void* alias = nullptr;
  EXPECT_ACL(driver()->alias(pointer, bytes, &alias));
  return static_cast<uint8_t*>(alias);
}

TEST_F(ArenaTest, DeviceAddressesAreInOneRangeAndKernelsUseAConstantOffset) {
  REQUIRE_SOFTNPU();
  for (const size_t bytes : {size_t{64}, size_t{1} << 20}) {
    DeviceBuffer buffer = make_device_buffer(bytes);
    const auto address = reinterpret_cast<uintptr_t>(buffer.get());
    EXPECT_GE(address, driver()->device_begin);
    EXPECT_LE(address + bytes, driver()->device_end);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(alias_of(buffer, bytes)), address + static_cast<uintptr_t>(driver()->alias_offset));
  }
  int on_stack = 0;
  PinnedBuffer pinned = make_pinned_buffer(64);
  for (const void* const host : {static_cast<const void*>(&on_stack), static_cast<const void*>(pinned.get())}) {
    const auto address = reinterpret_cast<uintptr_t>(host);
    EXPECT_FALSE(address >= driver()->device_begin && address < driver()->device_end);
  }
}

TEST_F(ArenaTest, CopiesReadWhatKernelsWrite) {
  REQUIRE_SOFTNPU();
  DeviceBuffer buffer = make_device_buffer(100'000);
  const Bytes contents = pattern(100'000);
  std::memcpy(alias_of(buffer, contents.size()), contents.data(), contents.size());
  EXPECT_EQ(download(buffer, contents.size()), contents);
}

TEST_F(ArenaTest, OnlyMemoryThatDevicesMayUseHasAnAlias) {
  REQUIRE_SOFTNPU();
  DeviceBuffer buffer = make_device_buffer(1000);
  PinnedBuffer pinned = make_pinned_buffer(1000);
  void* alias = nullptr;
  EXPECT_EQ(alias_of(pinned, 1000), pinned.get());
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, driver()->alias(buffer, 9000, &alias));
  EXPECT_RECENT_ERROR("past the end");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, driver()->alias(pinned, 9000, &alias));
  int pageable = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, driver()->alias(&pageable, 4, &alias));
  void* const freed = buffer.release();
  ASSERT_ACL(aclrtFree(freed));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, driver()->alias(freed, 4, &alias));
  EXPECT_RECENT_ERROR("use after free");
}

TEST_F(ArenaTest, DevicesDoNotShareMemory) {
  uint32_t count = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&count));
  if (count < 2) GTEST_SKIP() << "needs two devices";
  DeviceBuffer first = device_copy_of(Bytes(1000, 1));
  ASSERT_ACL(aclrtSetDevice(1));
  {
    DeviceBuffer second = device_copy_of(Bytes(1000, 2));
    EXPECT_EQ(download(first, 1000), Bytes(1000, 1));
    EXPECT_EQ(download(second, 1000), Bytes(1000, 2));
  }
  EXPECT_ACL(aclrtResetDevice(1));
}

using ChildArena = AclFixture;

TEST_F(ChildArena, HostReadsDeviceMemory) {
  DeviceBuffer buffer = make_device_buffer(64);
  fault_plainly();
  std::printf("read %d\n", *static_cast<volatile char*>(buffer.get()));
}

TEST_F(ChildArena, HostWritesDeviceMemory) {
  DeviceBuffer buffer = make_device_buffer(size_t{1} << 20);
  fault_plainly();
  *static_cast<volatile char*>(buffer.get()) = 1;
}

TEST_F(ArenaTest, HostAccessToDeviceMemoryFaults) {
  for (const char* const test : {"ChildArena.HostReadsDeviceMemory", "ChildArena.HostWritesDeviceMemory"}) {
    const Child child = run_child(test);
    EXPECT_EQ(child.exit_code, -SIGSEGV) << test << "\n" << child.output;
  }
}

// The exit code of a forked child that runs `body`, or minus its signal.
int run_forked(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(ChildArena, ForksWithDeviceMemory) {
  const Bytes contents = pattern(5000);
  DeviceBuffer buffer = device_copy_of(contents);
  uint8_t* const alias = alias_of(buffer, 5000);

  EXPECT_EQ(run_forked([&] {
              const aclError code = aclrtMemset(buffer, 5000, 0, 5000);
              return code == ACL_ERROR_UNINITIALIZE && recent_error().find("spawn") != std::string::npos ? 0 : 1;
            }),
            0)
      << "the error does not name spawn";
  EXPECT_EQ(run_forked([&] {
              fault_plainly();
              *static_cast<volatile uint8_t*>(alias) = 1;
              return 0;
            }),
            -SIGSEGV)
      << "the child can read the device memory of its parent";
  EXPECT_EQ(run_forked([&] {
              fault_plainly();
              return *static_cast<volatile uint8_t*>(buffer.get());
            }),
            -SIGSEGV);
  EXPECT_EQ(download(buffer, 5000), contents) << "the memory of the parent changed";
}

TEST_F(ArenaTest, ForkedChildCannotUseDeviceMemory) {
  REQUIRE_SOFTNPU();
  EXPECT_CHILD_PASSES("ChildArena.ForksWithDeviceMemory");
}

}  // namespace
}  // namespace softnpu::test
