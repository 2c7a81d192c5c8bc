// The commands of softnpuControl: one test per sentence of runtime/softnpu.h.
#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>

#include "runtime/softnpu.h"
#include "testing/acl_fixture.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

class ControlTest : public AclFixture {
 protected:
  void SetUp() override {
    REQUIRE_SOFTNPU();
    AclFixture::SetUp();
    control_ = reinterpret_cast<decltype(&softnpuControl)>(dlsym(RTLD_DEFAULT, "softnpuControl"));
    ASSERT_NE(control_, nullptr);
  }
  decltype(&softnpuControl) control_ = nullptr;
};

TEST_F(ControlTest, HelpNamesEveryCommand) {
  char reply[4096];
  ASSERT_ACL(control_("help", reply, sizeof reply));
  EXPECT_NE(std::strstr(reply, "check-memory: "), nullptr) << reply;
}

class ChildMemoryChecks : public ControlTest {};

TEST_F(ChildMemoryChecks, Off) {
  char reply[64];
  ASSERT_ACL(control_("memory-checks", reply, sizeof reply));
  EXPECT_STREQ(reply, "none");
}

TEST_F(ChildMemoryChecks, Two) {
  char reply[64];
  ASSERT_ACL(control_("memory-checks", reply, sizeof reply));
  EXPECT_STREQ(reply, "redzone,guard");
}

TEST_F(ControlTest, MemoryChecksAreReadFromTheEnvironment) {
  EXPECT_CHILD_PASSES("ChildMemoryChecks.Off", {"SOFTNPU_MEMORY_CHECK=none"});
  EXPECT_CHILD_PASSES("ChildMemoryChecks.Two", {"SOFTNPU_MEMORY_CHECK=guard, redzone"});
}

TEST_F(ControlTest, OptionsAreTheVariablesThatAreRead) {
  std::string reply(1 << 16, '\0');
  ASSERT_ACL(control_("options", reply.data(), reply.size()));
  EXPECT_EQ(reply.find("SOFTNPU_DEVICE_COUNT\ta whole number from 1 to 64\t8\t"), 0u) << reply.c_str();
  EXPECT_NE(reply.find("\nASCEND_RT_VISIBLE_DEVICES\t"), std::string::npos) << reply.c_str();
}

class ChildUsage : public ControlTest {};

// A line is "device 0 <bytes held> <bytes in all> <nanoseconds busy> <nanoseconds of the clock>".
TEST_F(ChildUsage, Grows) {
  const auto first_device = [this] {
    char reply[4096];
    EXPECT_ACL(control_("usage", reply, sizeof reply));
    std::istringstream words(std::strstr(reply, "device 0 ") + std::strlen("device 0 "));
    std::array<int64_t, 4> numbers{};
    for (int64_t& number : numbers) words >> number;
    return numbers;
  };
  const auto before = first_device();
  void* held = nullptr;
  ASSERT_ACL(aclrtMalloc(&held, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  ASSERT_ACL(launch(nullptr, {.run = [](char*) { return std::this_thread::sleep_for(20ms), ACL_SUCCESS; },
                              .cost = Task::kLargeCost,
                              .flags = SOFTNPU_TASK_ON_WORKER}));
  ASSERT_ACL(aclrtSynchronizeStream(nullptr));
  const auto after = first_device();
  EXPECT_GE(after[0] - before[0], 8 << 20);
  EXPECT_EQ(after[1], 64 << 20);
  EXPECT_GE(after[2] - before[2], 20'000'000);
  EXPECT_GE(after[3] - before[3], after[2] - before[2]);
}

TEST_F(ControlTest, UsageTellsHeldBytesAndBusyTime) {
  TempDir folder;
  EXPECT_CHILD_PASSES("ChildUsage.Grows", {"SOFTNPU_DEVICE_MEMORY=64M", "SOFTNPU_LEDGER_DIR=" + folder.path().string()});
}

TEST_F(ChildUsage, Lists) {
  char reply[4096];
  ASSERT_ACL(control_("usage", reply, sizeof reply));
  int processes = 0;
  std::istringstream lines(reply);
  for (std::string line; std::getline(lines, line);) processes += line.starts_with("process ");
  EXPECT_EQ(processes, 1) << reply;
  EXPECT_NE(std::strstr(reply, " one?process 0 1 1 1 forged\n"), nullptr) << reply;
}

class ChildForgedName : public ControlTest {
 protected:
  void SetUp() override {
    static char name[] = "one\nprocess 0 1 1 1 forged";
    program_invocation_short_name = name;
    ControlTest::SetUp();
  }
};

TEST_F(ChildForgedName, HoldsMemory) {
  DeviceBuffer held = make_device_buffer(1 << 20);
  EXPECT_CHILD_PASSES("ChildUsage.Lists");
}

TEST_F(ControlTest, UsageHasOneLinePerProcessForAnyProgramName) {
  TempDir folder;
  EXPECT_CHILD_PASSES("ChildForgedName.HoldsMemory",
                      {"SOFTNPU_DEVICE_MEMORY=64M", "SOFTNPU_LEDGER_DIR=" + folder.path().string()});
}

TEST_F(ControlTest, ReplyIsCutToFit) {
  char reply[8];
  std::memset(reply, 'x', sizeof reply);
  ASSERT_ACL(control_("help", reply, sizeof reply));
  EXPECT_EQ(std::strlen(reply), sizeof reply - 1);
  ASSERT_ACL(control_("help", nullptr, 0));
}

TEST_F(ControlTest, BadCommandsAreRefused) {
  char reply[64];
  for (const char* command : {"", "nonsense", " help"}) {
    EXPECT_EQ(control_(command, reply, sizeof reply), ACL_ERROR_INVALID_PARAM) << command;
    EXPECT_STREQ(reply, "");
  }
  EXPECT_EQ(control_(nullptr, reply, sizeof reply), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(control_("help", nullptr, 1), ACL_ERROR_INVALID_PARAM);
}

}  // namespace
}  // namespace softnpu::test
