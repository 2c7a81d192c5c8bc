// The environment variables of docs/environment.md: their effect, and the warning about a bad value.
#include <atomic>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "testing/buffers.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

class OptionsTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_SOFTNPU(); }
};

// Prints the settings as the C functions return them.
TEST(ChildOptions, Report) {
  ASSERT_ACL(aclInit(nullptr));
  uint32_t count = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&count));
  std::printf("devices=%u\nsoc=%s\n", count, aclrtGetSocName());
  for (uint32_t device = 0; device < count; ++device) {
    int32_t number = -1;
    ASSERT_ACL(aclrtGetLogicDevIdByUserDevId(static_cast<int32_t>(device), &number));
    std::printf("device%u=%d\n", device, number);
  }
  std::printf("set=%d\n", aclrtSetDevice(0));
  std::printf("beyond=%d\n", aclrtSetDevice(static_cast<int32_t>(count)));
  if (count == 0) return;
  size_t free = 0;
  size_t total = 0;
  ASSERT_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  std::printf("total=%zu\nfree=%zu\n", total, free);
}

Child report_with(const std::vector<std::string>& environment) {
  Child child = run_child("ChildOptions.Report", environment);
  EXPECT_TRUE(child.passed()) << child.output;
  return child;
}

// Lines such as "[WARNING] softnpu: bad value 'x' of SOFTNPU_LAUNCH; allowed: ...".
std::vector<std::string> warnings_in(const std::string& output) {
  std::vector<std::string> found;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("[WARNING] softnpu:") != std::string::npos) found.push_back(line);
  }
  return found;
}

::testing::AssertionResult reports(const Child& child, const std::string& line) {
  if (("\n" + child.output).find("\n" + line + "\n") != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no line '" << line << "' in\n" << child.output;
}

struct Effect {
  std::vector<std::string> environment;
  std::vector<std::string> lines;
};

TEST_F(OptionsTest, ValidValuesAreUsedWithoutAWarning) {
  TempDir folder;
  const std::string own_account = "SOFTNPU_LEDGER_DIR=" + folder.path().string();
  const Effect effects[] = {
      {{"SOFTNPU_DEVICE_COUNT="}, {"devices=8"}},
      {{"SOFTNPU_DEVICE_COUNT=1"}, {"devices=1", "set=0", "beyond=107001"}},
      {{"SOFTNPU_DEVICE_COUNT=64", "SOFTNPU_DEVICE_MEMORY=16M"}, {"devices=64", "device63=63"}},
      {{"SOFTNPU_DEVICE_COUNT= 3 "}, {"devices=3"}},
      {{"SOFTNPU_DEVICE_MEMORY=33554432"}, {"total=33554432"}},
      {{"SOFTNPU_DEVICE_MEMORY=32768K"}, {"total=33554432"}},
      {{"SOFTNPU_DEVICE_MEMORY=32M"}, {"total=33554432"}},
      {{"SOFTNPU_DEVICE_MEMORY=32m"}, {"total=33554432"}},
      {{"SOFTNPU_DEVICE_MEMORY=1G"}, {"total=1073741824"}},
      {{"SOFTNPU_DEVICE_MEMORY=1G", "SOFTNPU_HOST_MEMORY=1T"}, {"total=1073741824", "free=1073741824"}},
      {{"SOFTNPU_DEVICE_MEMORY=1G", "SOFTNPU_HOST_MEMORY=20M"}, {"total=1073741824", "free=20971520"}},
      {{"SOFTNPU_SOC_NAME="}, {"soc=Ascend910B3"}},
      {{"SOFTNPU_SOC_NAME=Ascend910B4-1"}, {"soc=Ascend910B4-1"}},
      {{"SOFTNPU_SOC_NAME=Ascend310P3"}, {"soc=Ascend310P3"}},
      {{"ASCEND_RT_VISIBLE_DEVICES=5,2"}, {"devices=2", "device0=5", "device1=2", "beyond=107001"}},
      {{"ASCEND_RT_VISIBLE_DEVICES= 7 , 0 "}, {"devices=2", "device0=7", "device1=0"}},
      {{"ASCEND_RT_VISIBLE_DEVICES="}, {"devices=0", "set=207004"}},
      {{"SOFTNPU_MEMORY_CHECK=none"}, {"set=0"}},
      {{"SOFTNPU_MEMORY_CHECK=redzone,poison,guard"}, {"set=0"}},
      {{"SOFTNPU_LAUNCH=hybrid"}, {"set=0"}},
  };
  for (const Effect& effect : effects) {
    std::vector<std::string> environment = effect.environment;
    environment.push_back(own_account);
    const Child child = report_with(environment);
    for (const std::string& line : effect.lines) EXPECT_TRUE(reports(child, line)) << effect.environment[0];
    EXPECT_EQ(warnings_in(child.output), std::vector<std::string>()) << effect.environment[0];
  }
}

struct BadValue {
  const char* variable;
  const char* value;
  std::string allowed;  // a part of the allowed values in the warning
  std::string used;     // a line of the report
};

TEST_F(OptionsTest, BadValueGivesOneWarningWithVariableValueAndAllowedValues) {
  const std::string bytes = "16M to";
  const BadValue bad_values[] = {
      {"SOFTNPU_DEVICE_COUNT", "0", "1 to 64", "devices=8"},
      {"SOFTNPU_DEVICE_COUNT", "65", "1 to 64", "devices=8"},
      {"SOFTNPU_DEVICE_COUNT", "-1", "1 to 64", "devices=8"},
      {"SOFTNPU_DEVICE_COUNT", "three", "1 to 64", "devices=8"},
      {"SOFTNPU_DEVICE_COUNT", "3x", "1 to 64", "devices=8"},
      {"SOFTNPU_DEVICE_COUNT", "99999999999999999999", "1 to 64", "devices=8"},
      {"SOFTNPU_DEVICE_MEMORY", "1M", bytes, "set=0"},
      {"SOFTNPU_DEVICE_MEMORY", "2T", bytes, "set=0"},
      {"SOFTNPU_DEVICE_MEMORY", "64MB", bytes, "set=0"},
      {"SOFTNPU_DEVICE_MEMORY", "-64M", bytes, "set=0"},
      {"SOFTNPU_DEVICE_MEMORY", "M", bytes, "set=0"},
      {"SOFTNPU_DEVICE_MEMORY", "99999999999999999999T", bytes, "set=0"},
      {"SOFTNPU_HOST_MEMORY", "1", bytes, "set=0"},
      {"SOFTNPU_HOST_MEMORY", "much", bytes, "set=0"},
      {"SOFTNPU_SOC_NAME", "Ascend9000", "Ascend910B3", "soc=Ascend910B3"},
      {"SOFTNPU_SOC_NAME", "ascend910b3", "Ascend910B3", "soc=Ascend910B3"},
      {"SOFTNPU_LAUNCH", "fast", "hybrid, queue, sync or shuffle", "set=0"},
      {"SOFTNPU_MEMORY_CHECK", "redzone,magic", "redzone, poison, guard", "set=0"},
      {"SOFTNPU_MEMORY_CHECK", "none,poison", "redzone, poison, guard", "set=0"},
      {"ASCEND_RT_VISIBLE_DEVICES", "0,9,1", "separated by commas", "devices=1"},
      {"ASCEND_RT_VISIBLE_DEVICES", "2,2", "separated by commas", "device0=2"},
      {"ASCEND_RT_VISIBLE_DEVICES", "all", "separated by commas", "devices=0"},
      {"ASCEND_RT_VISIBLE_DEVICES", "-1", "separated by commas", "devices=0"},
      {"ASCEND_GLOBAL_LOG_LEVEL", "5", "0 (debug)", "set=0"},
      {"ASCEND_GLOBAL_LOG_LEVEL", "info", "0 (debug)", "set=0"},
      {"ASCEND_SLOG_PRINT_TO_STDOUT", "2", "0 or 1", "set=0"},
      {"ASCEND_GLOBAL_EVENT_ENABLE", "yes", "0 or 1", "set=0"},
  };
  for (const BadValue& bad : bad_values) {
    const std::string setting = std::string(bad.variable) + "=" + bad.value;
    const Child child = report_with({setting});
    const std::vector<std::string> warnings = warnings_in(child.output);
    ASSERT_EQ(warnings.size(), 1u) << setting << "\n" << child.output;
    for (const std::string& part : {std::string(bad.variable), "'" + std::string(bad.value) + "'", bad.allowed}) {
      EXPECT_NE(warnings[0].find(part), std::string::npos) << "'" << part << "' is missing in: " << warnings[0];
    }
    EXPECT_TRUE(reports(child, bad.used)) << setting;
  }
}

TEST_F(OptionsTest, EachBadVariableGivesAWarning) {
  const Child child = report_with({"SOFTNPU_LAUNCH=x", "SOFTNPU_DEVICE_COUNT=x", "ASCEND_GLOBAL_LOG_LEVEL=x"});
  EXPECT_EQ(warnings_in(child.output).size(), 3u) << child.output;
}

using ChildLaunch = AclFixture;

TEST_F(ChildLaunch, RunsInTheLaunchingCall) {
  std::thread::id runner;
  ASSERT_ACL(launch(nullptr,
                    {.run = [&](char*) { return runner = std::this_thread::get_id(), ACL_SUCCESS; }, .cost = Task::kSmallCost}));
  EXPECT_EQ(runner, std::this_thread::get_id());
}

// If launch() ran the task, the gate could not be opened.
TEST_F(ChildLaunch, ReturnsBeforeTheTask) {
  Flag opened;
  bool in_time = false;
  ASSERT_ACL(launch(nullptr, {.run = [&, opened](char*) { return in_time = opened.within(kPatience), ACL_SUCCESS; },
                              .cost = Task::kSmallCost,
                              .flags = SOFTNPU_TASK_ON_WORKER}));
  opened.set();
  ASSERT_ACL(aclrtSynchronizeStream(nullptr));
  EXPECT_TRUE(in_time);
}

TEST_F(ChildLaunch, ReturnsBeforeASmallTask) {
  Flag opened;
  bool in_time = false;
  ASSERT_ACL(launch(nullptr, {.run = [&, opened](char*) { return in_time = opened.within(kPatience), ACL_SUCCESS; },
                              .cost = Task::kSmallCost}));
  opened.set();
  ASSERT_ACL(aclrtSynchronizeStream(nullptr));
  EXPECT_TRUE(in_time);
}

TEST_F(ChildLaunch, ReturnsAfterTheTask) {
  for (const uint64_t cost : {Task::kSmallCost, Task::kLargeCost}) {
    std::atomic<bool> ran = false;
    ASSERT_ACL(launch(nullptr, {.run = [&](char*) { return ran = true, ACL_SUCCESS; }, .cost = cost}));
    EXPECT_TRUE(ran) << "cost " << cost;
  }
}

TEST_F(OptionsTest, LaunchModesDecideWhenATaskRuns) {
  EXPECT_CHILD_PASSES("ChildLaunch.RunsInTheLaunchingCall:ChildLaunch.ReturnsBeforeTheTask", {"SOFTNPU_LAUNCH=hybrid"});
  EXPECT_CHILD_PASSES("ChildLaunch.ReturnsBeforeASmallTask", {"SOFTNPU_LAUNCH=queue"});
  EXPECT_CHILD_PASSES("ChildLaunch.ReturnsAfterTheTask", {"SOFTNPU_LAUNCH=sync"});
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match) found.insert((*match)[1]);
  return found;
}

TEST_F(OptionsTest, DocumentListsExactlyTheVariablesThatAreRead) {
  const std::filesystem::path repository = SOFTNPU_REPOSITORY;
  const std::string source = read_file(repository / "softnpu/runtime/base/options.cpp");
  const std::string document = read_file(repository / "docs/environment.md");
  const std::string of_the_device = document.substr(0, document.find("\n## The plugin"));
  const std::set<std::string> read = matches(source, "\"((?:SOFTNPU|ASCEND)_[A-Z_]+)\"");
  EXPECT_FALSE(read.empty());
  EXPECT_EQ(matches(of_the_device, "\n\\| `([A-Z_]+)` \\|"), read);
}

}  // namespace
}  // namespace softnpu::test
