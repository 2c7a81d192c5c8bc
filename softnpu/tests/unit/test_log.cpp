// One test per sentence of log.h.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "in_child.h"
#include "runtime/base/log.h"

namespace softnpu {
namespace {

namespace fs = std::filesystem;

class Log : public testing::Test {
 protected:
  Log() : folder_(fs::temp_directory_path() / text("softnpu_log_test_", getpid())) { fs::remove_all(folder_); }
  ~Log() override { fs::remove_all(folder_); }

  ChildOutput run(Environment environment, const std::function<void()>& body) {
    environment.emplace_back("ASCEND_PROCESS_LOG_PATH", (folder_ / "deep").string());
    return in_child(environment, [&] { return body(), std::string(); });
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    if (!fs::exists(folder_)) return all;
    for (const auto& entry : fs::directory_iterator(folder_ / "deep" / "plog")) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }

  static std::string content(const fs::path& path) {
    std::stringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }

  const fs::path folder_;
};

TEST_F(Log, LineHasTheLayoutOfCann) {
  run({}, [] { SOFTNPU_LOG(kError, "stream ", 7, "\nis gone\n"); });
  ASSERT_EQ(files().size(), 1u);
  const std::regex layout(
      R"(\[ERROR\] RUNTIME\(\d+,[^)]+\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \[test_log\.cpp:\d+\]\d+ operator\(\):stream 7 is gone\n)");
  EXPECT_TRUE(std::regex_match(content(files()[0]), layout)) << content(files()[0]);
  EXPECT_TRUE(std::regex_match(files()[0].filename().string(), std::regex(R"(plog-\d+_\d{17}\.log)"))) << files()[0];
  struct stat info {};
  ASSERT_EQ(stat(files()[0].parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0027, 0) << "others can write or enter the folder";
}

TEST_F(Log, LevelsBelowTheLimitAreNotFormatted) {
  run({{"ASCEND_GLOBAL_LOG_LEVEL", "2"}}, [] {
    const auto count = [](int& counter) { return ++counter; };
    int formatted = 0;
    SOFTNPU_LOG(kDebug, count(formatted));
    SOFTNPU_LOG(kInfo, count(formatted));
    SOFTNPU_LOG(kWarning, "formatted before: ", formatted);
  });
  ASSERT_EQ(files().size(), 1u);
  EXPECT_NE(content(files()[0]).find("formatted before: 0\n"), std::string::npos);
  EXPECT_EQ(content(files()[0]).find("DEBUG"), std::string::npos);
}

TEST_F(Log, NoFileIsCreatedWithoutALine) {
  run({{"ASCEND_GLOBAL_LOG_LEVEL", "4"}, {"ASCEND_GLOBAL_EVENT_ENABLE", "1"}}, [] {
    SOFTNPU_LOG(kError, "x");
    SOFTNPU_LOG_EVENT("x");
    app_log(LogLevel::kNone, {"a.c", 1, "f"}, "x");
  });
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(Log, EventsNeedTheirSwitch) {
  run({}, [] { SOFTNPU_LOG_EVENT("opened"); });
  EXPECT_TRUE(files().empty());
  run({{"ASCEND_GLOBAL_EVENT_ENABLE", "1"}}, [] { SOFTNPU_LOG_EVENT("opened"); });
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(content(files()[0]).find("[EVENT] RUNTIME("), 0u);
}

TEST_F(Log, StdoutIsWrittenInAdditionToTheFile) {
  const auto output = run({{"ASCEND_SLOG_PRINT_TO_STDOUT", "1"}}, [] { app_log(LogLevel::kError, {"dir/a.c", 3, "f"}, "both"); });
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(output.printed, content(files()[0]));
  EXPECT_EQ(output.printed.find("[ERROR] APP("), 0u);
  EXPECT_NE(output.printed.find("[a.c:3]"), std::string::npos);
}

TEST_F(Log, UnwritableFolderIsReportedOnce) {
  const auto output = in_child({{"ASCEND_PROCESS_LOG_PATH", "/proc/none"}}, [] {
    SOFTNPU_LOG(kError, "x");
    SOFTNPU_LOG(kError, "y");
    return std::string("alive");
  });
  EXPECT_EQ(output.result, "alive");
  EXPECT_NE(output.printed.find("/proc/none/plog/"), std::string::npos) << output.printed;
  EXPECT_EQ(std::count(output.printed.begin(), output.printed.end(), '\n'), 1) << output.printed;
}

TEST_F(Log, ChildOfForkWritesAFileOfItsOwn) {
  run({}, [] {
    SOFTNPU_LOG(kError, "parent");
    if (fork() == 0) {
      SOFTNPU_LOG(kError, "child");
      _exit(0);
    }
    wait(nullptr);
  });
  ASSERT_EQ(files().size(), 2u);
  for (const auto& file : files()) EXPECT_EQ(std::ranges::count(content(file), '\n'), 1) << file;
}

TEST_F(Log, ForkWhileOtherThreadsWriteDoesNotBlockTheChild) {
  const auto output = run({}, [] {
    std::atomic<bool> stop = false;
    std::thread writer([&] {
      while (!stop) SOFTNPU_LOG(kError, "busy");
    });
    for (int i = 0; i < 50; ++i) {
      if (fork() == 0) {
        alarm(60);
        SOFTNPU_LOG(kError, "child");
        _exit(0);
      }
      int status = 0;
      wait(&status);
      if (status != 0) puts("a child hung"), fflush(stdout);
    }
    stop = true;
    writer.join();
  });
  EXPECT_EQ(output.printed, "");
}

TEST_F(Log, FullFilesAreRotatedAndFiveAreKept) {
  run({}, [] {
    const std::string message(1 << 20, 'x');
    for (int i = 0; i < 130; ++i) SOFTNPU_LOG(kError, message);
  });
  ASSERT_EQ(files().size(), 5u);
  EXPECT_GE(fs::file_size(files()[0]), 20u << 20);
  EXPECT_LE(fs::file_size(files()[0]), 22u << 20);
}

TEST_F(Log, LinesOfThreadsDoNotMix) {
  run({}, [] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) SOFTNPU_LOG(kError, std::string(100, static_cast<char>('a' + t)));
      });
    }
    for (auto& thread : threads) thread.join();
  });
  std::istringstream lines(content(files().at(0)));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string message = line.substr(line.rfind(':') + 1);
    ASSERT_EQ(message, std::string(100, message[0]));
  }
  EXPECT_EQ(count, 800);
}

}  // namespace
}  // namespace softnpu
