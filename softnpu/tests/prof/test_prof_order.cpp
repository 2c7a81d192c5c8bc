// Order of calls and wrong arguments.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "prof/prof_fixture.h"

namespace softnpu::test {
namespace {

using ProfOrder = ProfFixture;

TEST_F(ProfOrder, NullIsRefused) {
  alignas(64) static char memory[8192];
  void* const buffer = memory;
#define PROF_NULL_CALL(function, argument, call)             \
  {                                                          \
    SCOPED_TRACE(#function);                                 \
    EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, call);         \
    EXPECT_RECENT_ERROR("argument '" #argument "' is null"); \
  }
#include "prof_bad_arguments.inc"
}

TEST_F(ProfOrder, WhatNeedsInitSaysSo) {
  aclprofConfig* const created = config(ACL_PROF_TASK_TIME);
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclprofStart(created));
  EXPECT_RECENT_ERROR("call aclprofInit first");
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclprofWarmup(created));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "200MB", 5));
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclprofFinalize());
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_NOT_RUN, aclprofStop(created));
  EXPECT_RECENT_ERROR("call aclprofStart first");
  EXPECT_ACL(aclprofDestroyConfig(created));
}

TEST_F(ProfOrder, TwiceIsRefused) {
  aclprofConfig* const created = config(ACL_PROF_TASK_TIME);
  aclprofConfig* const same_device = config(ACL_PROF_ACL_API);
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  EXPECT_ACL_ERROR(ACL_ERROR_REPEAT_INITIALIZE, aclprofInit(folder().c_str(), folder().size()));
  EXPECT_RECENT_ERROR(folder());
  ASSERT_ACL(aclprofStart(created));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_ALREADY_RUN, aclprofStart(created));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_ALREADY_RUN, aclprofStart(same_device));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_ALREADY_RUN, aclprofDestroyConfig(created));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_ALREADY_RUN, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "200MB", 5));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofStop(same_device));
  EXPECT_RECENT_ERROR("started with another configuration");
  ASSERT_ACL(aclprofStop(created));
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_NOT_RUN, aclprofStop(created));
  ASSERT_ACL(aclprofFinalize());
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclprofFinalize());
  EXPECT_ACL(aclprofDestroyConfig(created));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofDestroyConfig(created));
  EXPECT_ACL(aclprofDestroyConfig(same_device));
}

TEST_F(ProfOrder, ADestroyedConfigurationCannotStart) {
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  int other = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofStart(reinterpret_cast<aclprofConfig*>(&other)));
  EXPECT_ACL(aclprofFinalize());
}

TEST_F(ProfOrder, FinalizeEndsWhatRecords) {
  aclprofConfig* const created = config(ACL_PROF_TASK_TIME);
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  ASSERT_ACL(aclprofStart(created));
  ASSERT_ACL(aclprofFinalize());
  EXPECT_EQ(lines("host/end.json").size(), 1u);
  EXPECT_ACL_ERROR(ACL_ERROR_PROF_NOT_RUN, aclprofStop(created));
  EXPECT_ACL(aclprofDestroyConfig(created));
}

TEST_F(ProfOrder, WrongConfigurationsAreNamed) {
  uint32_t devices[2] = {0, 0};
  const auto create = [&](uint32_t count, int metrics, uint64_t bits) {
    return aclprofCreateConfig(devices, count, aclprofAicoreMetrics(metrics), nullptr, bits);
  };
  EXPECT_EQ(create(1, 9, ACL_PROF_TASK_TIME), nullptr);
  EXPECT_RECENT_ERROR("'aicoreMetrics' (9)");
  EXPECT_EQ(create(1, ACL_AICORE_NONE, 0), nullptr);
  EXPECT_RECENT_ERROR("'dataTypeConfig' is 0");
  EXPECT_EQ(create(0, ACL_AICORE_NONE, 1), nullptr);
  EXPECT_RECENT_ERROR("'deviceNums' is 0");
  EXPECT_EQ(create(~0u, ACL_AICORE_NONE, 1), nullptr);
  devices[0] = 12345;
  EXPECT_EQ(create(1, ACL_AICORE_NONE, 1), nullptr);
  EXPECT_RECENT_ERROR("no device 12345");
  EXPECT_EQ(aclprofCreateConfig(nullptr, 1, ACL_AICORE_NONE, nullptr, 1), nullptr);
  EXPECT_RECENT_ERROR("'deviceIdList' is null");
}

TEST_F(ProfOrder, WrongSettingsAreNamed) {
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_ARGS_MIN, "1", 1));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_ARGS_MAX, "1", 1));
  EXPECT_RECENT_ERROR("'configType' (17)");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_LLC_MODE, "", 0));
  for (const std::string bad : {"MB", "0MB", "200", "-1MB", "200 MB", "99999999999999999999MB"}) {
    EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, bad.c_str(), bad.size()));
    EXPECT_RECENT_ERROR("such as 200MB, not '" + bad + "'");
  }
  EXPECT_ACL_ERROR(ACL_ERROR_FEATURE_UNSUPPORTED, aclprofSetConfig(ACL_PROF_PATH, "x", 1));
  EXPECT_ACL(aclprofSetConfig(ACL_PROF_LLC_MODE, "read", 4));
  EXPECT_ACL(aclprofFinalize());
}

TEST_F(ProfOrder, APathThatCannotBeUsedIsNamed) {
  const std::string file = write_file(folder() + "/file", "x");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_FILE, aclprofInit((file + "/below").c_str(), file.size() + 6));
  EXPECT_RECENT_ERROR("cannot be made");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofInit("", 0));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofInit("x", size_t{1} << 20));
  if (geteuid() != 0) {
    const std::string locked = folder() + "/locked";
    mkdir(locked.c_str(), 0500);
    EXPECT_ACL_ERROR(ACL_ERROR_INVALID_FILE, aclprofInit(locked.c_str(), locked.size()));
    EXPECT_RECENT_ERROR(locked + " cannot be written");
  }
}

TEST_F(ProfOrder, AMissingFolderIsMade) {
  const std::string path = folder() + "/a/b";
  ASSERT_ACL(aclprofInit(path.c_str(), path.size()));
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_ACL(aclprofFinalize());
}

TEST_F(ProfOrder, AFullDiskIsAnErrorOfStop) {
  aclprofConfig* const created = config(ACL_PROF_TASK_TIME);
  ASSERT_ACL(aclprofInit(folder().c_str(), folder().size()));
  ASSERT_ACL(aclprofStart(created));
  std::filesystem::remove_all(results().back() / "host" / "end.json");
  ASSERT_EQ(symlink("/dev/full", (results().back() / "host" / "end.json").c_str()), 0);
  EXPECT_ACL_ERROR(ACL_ERROR_WRITE_FILE, aclprofStop(created));
  EXPECT_RECENT_ERROR("end.json cannot be written: No space left on device");
  EXPECT_ACL(aclprofFinalize());
  EXPECT_ACL(aclprofDestroyConfig(created));
}

TEST_F(ProfOrder, StampsRangesAndStepsAreChecked) {
  int other = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofMark(&other));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofPop());
  EXPECT_RECENT_ERROR("no open range");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofRangeStop(77));
  EXPECT_RECENT_ERROR("'rangeId' (77)");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofMarkEx("x", 0, nullptr));
  void* const stamp = aclprofCreateStamp();
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofMark(stamp));
  EXPECT_RECENT_ERROR("call aclprofSetStampTraceMessage first");
  aclprofDestroyStamp(stamp);
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofPush(stamp));
  aclprofDestroyStamp(nullptr);
  aclprofStepInfo* const step = aclprofCreateStepInfo();
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(step, ACL_STEP_END, nullptr));
  EXPECT_RECENT_ERROR("has not begun");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(step, aclprofStepTag(2), nullptr));
  EXPECT_ACL(aclprofGetStepTimestamp(step, ACL_STEP_START, nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(step, ACL_STEP_START, nullptr));
  aclprofDestroyStepInfo(step);
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(step, ACL_STEP_END, nullptr));
}

}  // namespace
}  // namespace softnpu::test
