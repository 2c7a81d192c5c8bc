// The log: layout of lines, levels, events, file and stdout.
#include <algorithm>
#include <regex>
#include <sstream>
#include <thread>

#include "testing/buffers.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

constexpr const char* kLayout = R"(\[(DEBUG|INFO|WARNING|ERROR|EVENT)\] (APP|RUNTIME)\((\d+),([^)]*)\):)"
                                R"(\d{4}-\d{2}-\d{2}-\d{2}:\d{2}:\d{2}\.\d{3}\.\d{3} \[([^:\]]+):(\d+)\](\d+) (\w+):(.*))";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_SOFTNPU(); }

  // Runs a child test that logs, with the given settings and the folder of this test.
  Child run(const std::string& filter, std::vector<std::string> environment) {
    for (const char* const name : {"ASCEND_GLOBAL_LOG_LEVEL=", "ASCEND_SLOG_PRINT_TO_STDOUT=", "ASCEND_GLOBAL_EVENT_ENABLE="}) {
      const bool is_given =
          std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) { return entry.starts_with(name); });
      if (!is_given) environment.push_back(name);
    }
    environment.push_back("ASCEND_PROCESS_LOG_PATH=" + (folder_.path() / "a/b").string());
    Child child = run_child(filter, environment);
    EXPECT_TRUE(child.passed()) << child.output;
    return child;
  }

  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "a/b/plog", none))
      found.push_back(entry.path());
    return found;
  }

  // The lines of the only file.
  std::vector<std::string> lines() const {
    const auto found = files();
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? std::vector<std::string>() : lines_of(read_file(found[0]));
  }

  TempDir folder_;
};

TEST(ChildLog, WritesALineOfEveryLevel) {
  aclAppLog(ACL_DEBUG, "load", "/some/where/model.cpp", 12, "%s %d", "debug", 1);
  aclAppLog(ACL_INFO, "load", "model.cpp", 13, "info %d", 2);
  aclAppLog(ACL_WARNING, "load", "model.cpp", 14, "two\nlines\n");
  aclAppLog(ACL_ERROR, "load", "model.cpp", 15, "error: %s", "disk");
}

TEST_F(LogTest, LinesHaveTheLayoutOfCann) {
  run("ChildLog.WritesALineOfEveryLevel", {"ASCEND_GLOBAL_LOG_LEVEL=0"});
  const std::vector<std::string> all = lines();
  std::vector<std::smatch> own;
  for (const std::string& line : all) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, std::regex(kLayout))) << line;
    if (parts[2] == "APP") own.push_back(parts);
  }
  ASSERT_EQ(own.size(), 4u);
  EXPECT_EQ(own[0][1], "DEBUG");
  EXPECT_EQ(own[0][5], "model.cpp") << "not the file name without its folder";
  EXPECT_EQ(own[0][6], "12");
  EXPECT_EQ(own[0][7], own[0][3]) << "not the TID of the first thread";
  EXPECT_EQ(own[0][8], "load");
  EXPECT_EQ(own[0][9], "debug 1");
  EXPECT_EQ(own[1][1], "INFO");
  EXPECT_EQ(own[2][1], "WARNING");
  EXPECT_EQ(own[2][9], "two lines") << "a line break was not replaced";
  EXPECT_EQ(own[3][1], "ERROR");
  const std::string name = files()[0].filename().string();
  EXPECT_TRUE(std::regex_match(name, std::regex("plog-" + own[0][3].str() + R"(_\d{17}\.log)"))) << name;
}

TEST_F(LogTest, LevelDecidesWhichLinesAreWritten) {
  const std::pair<const char*, size_t> levels[] = {{"0", 4}, {"1", 3}, {"2", 2}, {"3", 1}, {"", 1}};
  for (const auto& [level, expected] : levels) {
    std::filesystem::remove_all(folder_.path() / "a");
    run("ChildLog.WritesALineOfEveryLevel", {std::string("ASCEND_GLOBAL_LOG_LEVEL=") + level});
    const std::vector<std::string> all = lines();
    EXPECT_EQ(
        std::count_if(all.begin(), all.end(), [](const std::string& line) { return line.find(" APP(") != std::string::npos; }),
        static_cast<ptrdiff_t>(expected))
        << "level '" << level << "'";
  }
  std::filesystem::remove_all(folder_.path() / "a");
  run("ChildLog.WritesALineOfEveryLevel", {"ASCEND_GLOBAL_LOG_LEVEL=4"});
  EXPECT_TRUE(files().empty()) << "level 4 created a file";
}

TEST_F(LogTest, OutputOnStdoutIsOptionalAndTheFileIsAlwaysWritten) {
  const Child quiet = run("ChildLog.WritesALineOfEveryLevel", {});
  EXPECT_EQ(quiet.output.find(" APP("), std::string::npos) << quiet.output;
  std::filesystem::remove_all(folder_.path() / "a");

  const Child loud = run("ChildLog.WritesALineOfEveryLevel", {"ASCEND_SLOG_PRINT_TO_STDOUT=1"});
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(loud.output.find(all[0]), std::string::npos) << "stdout and file have different lines\n" << loud.output;
}

TEST(ChildLog, FailsToFree) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_NE(aclrtFree(reinterpret_cast<void*>(64)), ACL_SUCCESS);
}

TEST_F(LogTest, FailureIsAnErrorLineThatNamesTheFunction) {
  run("ChildLog.FailsToFree", {});
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 1u);
  std::smatch parts;
  ASSERT_TRUE(std::regex_match(all[0], parts, std::regex(kLayout))) << all[0];
  EXPECT_EQ(parts[1], "ERROR");
  EXPECT_EQ(parts[2], "RUNTIME");
  EXPECT_NE(all[0].find("aclrtFree"), std::string::npos) << all[0];
}

TEST(ChildLog, UsesADevice) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  ASSERT_ACL(aclFinalize());
}

TEST_F(LogTest, EventLinesHaveTheirOwnSwitch) {
  run("ChildLog.UsesADevice", {});
  EXPECT_TRUE(files().empty()) << "a file was created without a line";
  run("ChildLog.UsesADevice", {"ASCEND_GLOBAL_EVENT_ENABLE=1"});
  const std::vector<std::string> all = lines();
  ASSERT_FALSE(all.empty());
  for (const std::string& line : all) EXPECT_TRUE(line.starts_with("[EVENT] RUNTIME(")) << line;
  std::filesystem::remove_all(folder_.path() / "a");
  run("ChildLog.UsesADevice", {"ASCEND_GLOBAL_EVENT_ENABLE=1", "ASCEND_GLOBAL_LOG_LEVEL=4"});
  EXPECT_TRUE(files().empty()) << "level 4 logged events";
}

TEST_F(LogTest, DefaultFolderOfTheLogIsInHome) {
  EXPECT_CHILD_PASSES("ChildLog.FailsToFree", {"HOME=" + folder_.path().string(), "ASCEND_PROCESS_LOG_PATH="});
  const auto plog = folder_.path() / "ascend/log/plog";
  ASSERT_TRUE(std::filesystem::is_directory(plog));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(plog), std::filesystem::directory_iterator()), 1);
}

TEST_F(LogTest, LogThatCannotBeWrittenIsReportedOnceAndCallsSucceed) {
  const std::string file = write_file(folder_.path() / "file", "");
  for (const std::vector<std::string>& environment : {std::vector<std::string>{"ASCEND_PROCESS_LOG_PATH=/proc/nowhere"},
                                                      {"ASCEND_PROCESS_LOG_PATH=" + file},
                                                      {"HOME=", "ASCEND_PROCESS_LOG_PATH="}}) {
    const Child child = run_child("ChildLog.FailsToFree", environment);
    EXPECT_TRUE(child.passed()) << child.output;
    const size_t first = child.output.find("ASCEND_PROCESS_LOG_PATH says which folder it is in");
    EXPECT_NE(first, std::string::npos) << child.output;
    EXPECT_EQ(child.output.find("ASCEND_PROCESS_LOG_PATH", first + 1), std::string::npos) << child.output;
  }
}

TEST(ChildLog, WritesFromManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < 200; ++i) aclAppLog(ACL_ERROR, "work", "threads.cpp", 1, "%d-%d", thread, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  aclAppLog(ACL_ERROR, "work", "threads.cpp", 2, "%s", std::string(5000, 'x').c_str());
  aclAppLog(ACL_ERROR, nullptr, nullptr, 0, nullptr);
  aclAppLog(static_cast<aclLogLevel>(17), "work", "threads.cpp", 3, "unknown level");
}

TEST_F(LogTest, LinesOfManyThreadsStayWhole) {
  run("ChildLog.WritesFromManyThreads", {});
  const std::vector<std::string> all = lines();
  EXPECT_EQ(all.size(), 801u) << "expected: 800 lines and a long one, and none for calls without a text";
  const std::regex layout(kLayout);
  for (const std::string& line : all) ASSERT_TRUE(std::regex_match(line, layout)) << line;
}

}  // namespace
}  // namespace softnpu::test
