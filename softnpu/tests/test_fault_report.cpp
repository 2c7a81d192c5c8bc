// Faults at addresses of device memory: the report prints one line, then the process ends as without it. In child processes.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

size_t count_of(const std::string& text, const std::string& words) {
  size_t count = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

// The line of the report that a child printed; "" if there is none.
std::string line_of(const Child& child) {
  const size_t begin = child.output.find("softnpu: SIG");
  if (begin == std::string::npos) return "";
  return child.output.substr(begin, child.output.find('\n', begin) - begin);
}

void read_byte(const void* address) { static_cast<void>(*static_cast<const volatile uint8_t*>(address)); }
void write_byte(void* address) { *static_cast<volatile uint8_t*>(address) = 1; }

void* kernel_view(const void* device_address, ptrdiff_t offset = 0) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(device_address) + static_cast<uintptr_t>(driver()->alias_offset) +
                                 static_cast<uintptr_t>(offset));
}

using ChildFault = AclFixture;

TEST_F(ChildFault, HostReads) { read_byte(at(make_device_buffer(1000), 16)); }

TEST_F(ChildFault, HostWrites) { write_byte(at(make_device_buffer(1000), 16)); }

TEST_F(ChildFault, HostReadsFreedMemory) {
  void* const block = make_device_buffer(1000).release();
  EXPECT_ACL(aclrtFree(block));
  read_byte(block);
}

TEST_F(ChildFault, HostReadsUnallocatedMemory) {
  const DeviceBuffer block = make_device_buffer(1000);
  read_byte(at(block, ptrdiff_t{8} << 20));
}

TEST_F(ChildFault, HostReadsInACallback) {
  const Stream stream = make_stream();
  const DeviceBuffer block = make_device_buffer(1000);
  EXPECT_ACL(run_on(stream, [&] { read_byte(block); }));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ChildFault, OtherFault) {
  void* const closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  read_byte(closed);
}

TEST_F(ChildFault, OtherFaultInACallback) {
  const Stream stream = make_stream();
  void* const closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_ACL(run_on(stream, [&] { read_byte(closed); }));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ChildFault, SignalFromAProcess) {
  kill(getpid(), SIGSEGV);
  pause();
}

TEST_F(ChildFault, SignalFromTheThread) { raise(SIGBUS); }

TEST_F(ChildFault, CopyFromProtectedMemory) {
  void* const closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const DeviceBuffer block = make_device_buffer(1000);
  EXPECT_ACL(aclrtMemcpy(block, 1000, closed, 1000, ACL_MEMCPY_HOST_TO_DEVICE));
}

TEST_F(ChildFault, AsynchronousCopyFromUnmappedMemory) {
  const Stream stream = make_stream();
  void* const host = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* alias = nullptr;
  ASSERT_ACL(aclrtHostRegister(host, 4096, ACL_HOST_REGISTER_MAPPED, &alias));
  const DeviceBuffer block = make_device_buffer(4096);
  const Gate gate(stream);
  ASSERT_ACL(aclrtMemcpyAsync(block, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  munmap(host, 4096);
  gate.open();
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ChildFault, TaskWritesHostMemory) {
  const Stream stream = make_stream();
  void* const closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_ACL(launch(stream, {.run =
                                 [closed](char*) {
                                   write_byte(closed);
                                   return aclError(ACL_SUCCESS);
                                 },
                             .name = "planted"}));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ChildFault, TaskWritesAnAddressForClients) {
  const Stream stream = make_stream();
  const DeviceBuffer block = make_device_buffer(100);
  EXPECT_ACL(launch(stream, {.run =
                                 [&](char*) {
                                   write_byte(block);
                                   return aclError(ACL_SUCCESS);
                                 },
                             .name = "planted"}));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

// These tests run with guard pages. The task is queued, so that the worker of the stream faults.
class ChildGuard : public AclFixture {
 protected:
  void run(const void* block, ptrdiff_t offset, uint64_t cost = Task::kLargeCost) {
    Stream stream = make_stream();
    EXPECT_ACL(launch(stream, {.run =
                                   [=](char*) {
                                     write_byte(kernel_view(block, offset));
                                     return aclError(ACL_SUCCESS);
                                   },
                               .name = "planted",
                               .cost = cost}));
    EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));  // a wait with a limit does not run the task
  }
};

TEST_F(ChildGuard, AfterASmallBlock) {
  const DeviceBuffer block = make_device_buffer(100);
  run(block, 99);
  run(block, 128);
}

TEST_F(ChildGuard, AfterALargeBlock) {
  const DeviceBuffer block = make_device_buffer(size_t{1} << 20);
  run(block, (1 << 20) - 1);
  run(block, 1 << 20);
}

TEST_F(ChildGuard, FarAfterABlock) {
  const DeviceBuffer block = make_device_buffer(100);
  run(block, 8 << 20);
}

TEST_F(ChildGuard, FarBeforeABlock) {
  const DeviceBuffer block = make_device_buffer(64 << 10);
  run(block, 0);
  run(block, -1);
}

TEST_F(ChildGuard, InTheLaunchingThread) {
  const DeviceBuffer block = make_device_buffer(100);
  run(block, 0, Task::kSmallCost);
  run(block, 128, Task::kSmallCost);
}

TEST_F(ChildGuard, InAThreadOfTheKernel) {
  const DeviceBuffer block = make_device_buffer(100);
  Stream stream = make_stream();
  EXPECT_ACL(launch(stream, {.run =
                                 [&](char*) {
                                   std::thread([&] { write_byte(kernel_view(block, 128)); }).join();
                                   return aclError(ACL_SUCCESS);
                                 },
                             .name = "planted"}));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ChildGuard, InAFreedBlock) {
  const Stream stream = make_stream();
  void* const block = make_device_buffer(100).release();
  const Gate gate(stream);
  EXPECT_ACL(launch(stream, {.run =
                                 [=](char*) {
                                   read_byte(kernel_view(block));
                                   return aclError(ACL_SUCCESS);
                                 },
                             .name = "planted"}));
  EXPECT_ACL(aclrtFree(block));
  gate.open();
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

class FaultReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    REQUIRE_SOFTNPU();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer reports faults itself";
#endif
  }

  // The child ends with SIGSEGV, prints one line, and all of `parts` are in it.
  static void expect_line(const char* test, const std::vector<std::string>& parts,
                          const char* setting = "SOFTNPU_LAUNCH=hybrid") {
    const Child child = run_child(test, {setting});
    EXPECT_EQ(child.exit_code, -SIGSEGV) << test << "\n" << child.output;
    EXPECT_EQ(count_of(child.output, "softnpu: SIG"), 1u) << test << "\n" << child.output;
    for (const std::string& part : parts) EXPECT_NE(line_of(child).find(part), std::string::npos) << test << "\n" << child.output;
  }
  static void expect_no_line(const char* test, int signal, const char* setting = "SOFTNPU_LAUNCH=hybrid") {
    const Child child = run_child(test, {setting});
    EXPECT_EQ(child.exit_code, -signal) << test << "\n" << child.output;
    EXPECT_EQ(line_of(child), "") << test;
  }
};

TEST_F(FaultReportTest, HostAccessIsReported) {
  const std::string block = "offset 16 of the allocation of 1000 bytes at 0x";
  expect_line("ChildFault.HostReads", {"SIGSEGV: host code read device address 0x", block, "on device 0", "aclrtMemcpy"});
  expect_line("ChildFault.HostWrites", {"SIGSEGV: host code wrote to device address 0x", block, "tensor.cpu()"});
  expect_line("ChildFault.HostReadsFreedMemory", {"host code read", "memory of device 0 that was freed"});
  expect_line("ChildFault.HostReadsUnallocatedMemory", {"host code read", "that was never allocated"});
  expect_line("ChildFault.HostReadsInACallback", {"host code read", "offset 0 of the allocation of 1000 bytes"});
}

TEST_F(FaultReportTest, OtherFaultsAreNotReported) {
  expect_no_line("ChildFault.OtherFault", SIGSEGV);
  expect_no_line("ChildFault.OtherFaultInACallback", SIGSEGV);
  expect_no_line("ChildFault.SignalFromAProcess", SIGSEGV);
  expect_no_line("ChildFault.SignalFromTheThread", SIGBUS);
}

TEST_F(FaultReportTest, CanBeSwitchedOff) { expect_no_line("ChildFault.HostReads", SIGSEGV, "SOFTNPU_FAULT_REPORT=0"); }

TEST_F(FaultReportTest, CopiesOfUnmappedHostMemoryAreReported) {
  const std::string rule = "keep host memory unchanged until its copy is done";
  expect_line("ChildFault.CopyFromProtectedMemory", {"aclrtMemcpy read address 0x", rule});
  expect_line("ChildFault.AsynchronousCopyFromUnmappedMemory", {"aclrtMemcpyAsync read address 0x", rule});
  expect_line("ChildFault.TaskWritesHostMemory", {"planted wrote to address 0x", "an error of its kernel"});
  expect_line("ChildFault.TaskWritesAnAddressForClients", {"planted wrote to address 0x", "an error of its kernel"});
}

TEST_F(FaultReportTest, FaultsInGuardPagesNameTheTask) {
  const char* const guard = "SOFTNPU_MEMORY_CHECK=guard";
  const std::string rule = "a kernel must stay inside its tensors";
  expect_line("ChildGuard.AfterASmallBlock",
              {"planted wrote to device address", "28 bytes past the end of the allocation of 100 bytes", rule}, guard);
  expect_line("ChildGuard.AfterALargeBlock", {"planted wrote", "0 bytes past the end of the allocation of 1048576 bytes", rule},
              guard);
  expect_line("ChildGuard.FarAfterABlock", {"planted wrote", "that was never allocated", rule}, guard);
  expect_line("ChildGuard.FarBeforeABlock", {"planted wrote", "1 bytes before the allocation of 65536 bytes", rule}, guard);
  expect_line("ChildGuard.InTheLaunchingThread", {"planted wrote", "28 bytes past the end"}, guard);
  expect_line("ChildGuard.InAThreadOfTheKernel", {"planted wrote", "28 bytes past the end"}, guard);
  expect_line("ChildGuard.InAFreedBlock", {"planted read", "that was freed", "record_stream()"}, guard);
}

// Signal handlers of the client.

void print(const char* words) { [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, words, std::strlen(words)); }

volatile void* g_expected = nullptr;
int g_page_writes = 0;

void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  ASSERT_EQ(sigaction(signal, &action, nullptr), 0);
}

class ChildHandler : public ::testing::Test {
 protected:
  static void use_device() {
    ASSERT_ACL(aclInit(nullptr));
    ASSERT_ACL(aclrtSetDevice(0));
  }
};

TEST_F(ChildHandler, InstalledEarlierRunsAfterwards) {
  install(SIGSEGV, [](int, siginfo_t* info, void*) {
    print(info->si_addr == g_expected ? "the client's handler\n" : "a wrong address\n");
    _exit(7);
  });
  use_device();
  void* const block = make_device_buffer(100).release();
  g_expected = block;
  read_byte(block);
}

TEST_F(ChildHandler, WithoutInformationRunsAfterwards) {
  signal(SIGSEGV, [](int) { _exit(7); });
  use_device();
  read_byte(make_device_buffer(100));
}

// Like a runtime that makes its pages accessible on the first access.
TEST_F(ChildHandler, MayRepairItsOwnFaultsRepeatedly) {
  install(SIGSEGV, [](int, siginfo_t* info, void*) {
    ++g_page_writes;
    auto* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(info->si_addr) & ~uintptr_t{4095});
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
  });
  use_device();
  auto* const pages = static_cast<uint8_t*>(mmap(nullptr, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (int page = 0; page < 3; ++page) write_byte(pages + page * 4096);
  EXPECT_EQ(g_page_writes, 3);
}

TEST_F(ChildHandler, InstalledLaterMayCallThePreviousHandler) {
  use_device();
  static struct sigaction ours;
  sigaction(SIGSEGV, nullptr, &ours);
  install(
      SIGSEGV,
      [](int, siginfo_t*, void*) {
        print("the client's handler\n");
        sigaction(SIGSEGV, &ours, nullptr);
        raise(SIGSEGV);
      },
      SA_NODEFER);
  read_byte(make_device_buffer(100));
}

TEST_F(FaultReportTest, SignalHandlersOfTheClientRun) {
  for (const char* const test :
       {"ChildHandler.InstalledEarlierRunsAfterwards", "ChildHandler.WithoutInformationRunsAfterwards"}) {
    const Child child = run_child(test);
    EXPECT_EQ(child.exit_code, 7) << test << "\n" << child.output;
    EXPECT_NE(line_of(child).find("host code read"), std::string::npos) << child.output;
    EXPECT_EQ(count_of(child.output, "a wrong address"), 0u) << child.output;
  }
  EXPECT_CHILD_PASSES("ChildHandler.MayRepairItsOwnFaultsRepeatedly");
  const Child child = run_child("ChildHandler.InstalledLaterMayCallThePreviousHandler");
  EXPECT_EQ(child.exit_code, -SIGSEGV) << child.output;
  EXPECT_NE(child.output.find("the client's handler\nsoftnpu: SIGSEGV: host code read"), std::string::npos) << child.output;
}

}  // namespace
}  // namespace softnpu::test
