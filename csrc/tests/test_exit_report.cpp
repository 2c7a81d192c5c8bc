// The output and the exit status of a process without Python with failures that no call has reported. Each case runs a process.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "acl/softnpu.h"
#include "acl/symbol.h"
#include "core/memory/allocator.h"
#include "core/stream/stream.h"

namespace torch_npu {
namespace {

constexpr const char* kPrinted = "torch_npu: the process ends, and no call has reported this failure of the device:\n";

void fail_on(NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  const at::DataPtr memory = allocate_memory(8);
  acl::softnpu_control("faults copy:1");
  ACL_CALL(aclrtMemsetAsync, memory.get(), 8, 0, 8, stream.stream());
  acl::softnpu_control("faults off");
}

TEST(ExitReportProcess, DISABLED_LeavesFailures) {
  fail_on(getNPUStreamFromPool(false, 0));
  fail_on(getDefaultNPUStream(1));
}

TEST(ExitReportProcess, DISABLED_LeavesAFailureAndFails) {
  fail_on(getDefaultNPUStream(0));
  std::exit(7);
}

TEST(ExitReportProcess, DISABLED_HasSeenItsFailure) {
  const NPUStream stream = getNPUStreamFromPool();
  fail_on(stream);
  EXPECT_THROW(stream.synchronize(), c10::Error);
}

struct Ended {
  int status;
  std::string output;
};

Ended run(const std::string& name) {
  const std::string command = std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_also_run_disabled_tests --gtest_filter=ExitReportProcess.DISABLED_" + name + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  for (std::array<char, 512> part; fgets(part.data(), part.size(), pipe) != nullptr;) output += part.data();
  return {WEXITSTATUS(pclose(pipe)), output};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ExitReport, NamesFailuresOfAllStreamsAndSetsTheStatusToOne) {
  const Ended ended = run("LeavesFailures");
  EXPECT_EQ(ended.status, 1) << ended.output;
  EXPECT_EQ(count(ended.output, kPrinted), 2) << ended.output;
  EXPECT_EQ(count(ended.output, "task 'aclrtMemsetAsync' failed: a fault was injected by the rule 'copy:1' (device 0, stream "),
            1);
  EXPECT_EQ(count(ended.output, "task 'aclrtMemsetAsync' failed: a fault was injected by the rule 'copy:1' (device 1, stream "),
            1);
}

TEST(ExitReport, KeepsAnotherStatus) {
  const Ended ended = run("LeavesAFailureAndFails");
  EXPECT_EQ(ended.status, 7) << ended.output;
  EXPECT_EQ(count(ended.output, kPrinted), 1) << ended.output;
}

TEST(ExitReport, DoesNotPrintReportedFailures) {
  const Ended ended = run("HasSeenItsFailure");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(count(ended.output, kPrinted), 0) << ended.output;
}

}  // namespace
}  // namespace torch_npu
