// The text of the exception of a failed task, with each switch. Switches are read once per process, so each case runs a process.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "acl/symbol.h"
#include "core/memory/allocator.h"
#include "core/stream/event.h"
#include "core/stream/launch_trace.h"
#include "gate.h"

namespace torch_npu {
namespace {

constexpr const char* kOperator = "aclrtStreamWaitEvent";

// Launches three tasks, of which the second fails after a second. Prints which call threw, and its text.
TEST(LaunchTraceProcess, DISABLED_FailsOneTask) {
  set_python_location([] { return std::string("train.py:12 in step"); });
  const NPUStream stream = getCurrentNPUStream();
  ACL_CALL(aclrtSetOpWaitTimeout, 1);
  const NPUStream other = getNPUStreamFromPool();
  const Gate gate(other);
  NPUEvent never;
  never.record(other);
  const at::DataPtr memory = allocate_memory(8);
  const auto launch = [&](std::string name, const char* arguments) {
    after_launch(stream, name.c_str(), [&] { return std::string(arguments); });
    name.assign(name.size(), '?');  // after_launch() must have copied the name
  };
  try {
    ACL_CALL(aclrtMemsetAsync, memory.get(), 8, 0, 8, stream.stream());
    launch("aclrtMemsetAsync", "first");
    never.block(stream);
    launch(kOperator, "float32[2, 3]");
    ACL_CALL(aclrtMemsetAsync, memory.get(), 8, 0, 8, stream.stream());
    launch(kOperator, "behind");
    std::puts("launched");
    stream.synchronize();
  } catch (const c10::Error& error) {
    std::printf("threw: %s\n", error.what_without_backtrace());
  }
  stream.synchronize();
  std::puts("usable");
}

std::string output_with(const std::string& setting) {
  const std::string command = setting + " " + std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_also_run_disabled_tests --gtest_filter=LaunchTraceProcess.* 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  for (std::array<char, 512> part; fgets(part.data(), part.size(), pipe.get()) != nullptr;) output += part.data();
  return output;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(LaunchTrace, WithoutASwitchTheErrorNamesTheTaskAndTheSwitches) {
  const std::string output = output_with("");
  EXPECT_TRUE(has(output, "launched\nthrew: aclrtSynchronize")) << output;
  EXPECT_TRUE(has(output, kOperator)) << output;
  EXPECT_TRUE(has(output, "TORCH_NPU_DEBUG=1") && has(output, "ASCEND_LAUNCH_BLOCKING=1")) << output;
  EXPECT_TRUE(has(output, "usable")) << "it was reported twice:\n" << output;
}

TEST(LaunchTrace, DebugNamesTheLaunchThatFailed) {
  const std::string output = output_with("TORCH_NPU_DEBUG=1");
  EXPECT_TRUE(has(output, "launched\nthrew: ")) << output;
  EXPECT_TRUE(has(output, "with float32[2, 3], called from train.py:12 in step")) << output;
  EXPECT_FALSE(has(output, "behind")) << output;
}

TEST(LaunchTrace, LaunchBlockingThrowsInTheLaunch) {
  for (const char* setting : {"ASCEND_LAUNCH_BLOCKING=1", "TASK_QUEUE_ENABLE=0"}) {
    const std::string output = output_with(setting);
    EXPECT_FALSE(has(output, "launched\n")) << output;
    EXPECT_TRUE(has(output, "with float32[2, 3], called from train.py:12 in step")) << output;
  }
}

TEST(LaunchTrace, ABadSettingIsAWarning) {
  const std::string output = output_with("TORCH_NPU_DEBUG=yes");
  EXPECT_TRUE(has(output, "TORCH_NPU_DEBUG is 'yes', but must be 0 or 1")) << output;
  EXPECT_TRUE(has(output, "usable")) << output;
}

}  // namespace
}  // namespace torch_npu
