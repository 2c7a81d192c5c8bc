// Runs the tests against the libascendcl that was linked, or against the file that ACL_TEST_LIBRARY names:
//
//   ACL_TEST_LIBRARY=/usr/local/Ascend/lib64/libascendcl.so softnpu_tests
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "testing/temp_dir.h"

namespace {

// Starts the program again with the library in LD_PRELOAD. Returns if it is there already, or if no library is requested.
void use_requested_library(char** arguments) {
  const char* library = std::getenv("ACL_TEST_LIBRARY");
  if (library == nullptr || *library == '\0') return;
  const char* preloaded = std::getenv("LD_PRELOAD");
  std::string list = preloaded == nullptr ? "" : preloaded;
  if ((":" + list + ":").find(":" + std::string(library) + ":") != std::string::npos) return;
  list = list.empty() ? library : std::string(library) + ":" + list;
  setenv("LD_PRELOAD", list.c_str(), /*overwrite=*/1);
  execv("/proc/self/exe", arguments);
  std::perror("ACL_TEST_LIBRARY: the tests cannot be started again");
  std::exit(2);
}

// Suites named Child... run only in child processes, which other tests start with run_child().
void hide_child_suites() {
  const std::string filter = GTEST_FLAG_GET(filter);
  GTEST_FLAG_SET(filter, filter + (filter.find('-') == std::string::npos ? "-" : ":") + "Child*");
}

}  // namespace

int main(int count, char** arguments) {
  use_requested_library(arguments);
  const softnpu::test::TempDir ledger;  // so that memory of other processes does not count, unless a test sets the variable
  setenv("SOFTNPU_LEDGER_DIR", ledger.path().c_str(), /*overwrite=*/0);
  ::testing::InitGoogleTest(&count, arguments);
  const bool is_child = std::getenv("ACL_TEST_CHILD") != nullptr;
  if (!is_child) hide_child_suites();
  const int status = RUN_ALL_TESTS();
  const bool ran_nothing = ::testing::UnitTest::GetInstance()->test_to_run_count() == 0;
  return is_child && ran_nothing ? 3 : status;
}
