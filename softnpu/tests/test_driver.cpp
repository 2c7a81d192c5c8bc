// The private interface between the softnpu libraries: one test per sentence of runtime/driver.h.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

class DriverTest : public AclFixture {
 protected:
  void SetUp() override {
    REQUIRE_SOFTNPU();
    AclFixture::SetUp();
  }
};

TEST_F(DriverTest, OtherVersionsAreRefused) {
  auto* const get = reinterpret_cast<decltype(&softnpuDriver)>(dlsym(RTLD_DEFAULT, "softnpuDriver"));
  EXPECT_EQ(get(SOFTNPU_DRIVER_VERSION), driver());
  EXPECT_EQ(driver()->version, uint32_t{SOFTNPU_DRIVER_VERSION});
  EXPECT_EQ(get(0), nullptr);
  EXPECT_EQ(get(SOFTNPU_DRIVER_VERSION + 1), nullptr);
}

// The payload that a task received.
std::atomic<int> g_runs;
std::atomic<int> g_releases;
unsigned char g_seen[SOFTNPU_TASK_PAYLOAD];
std::thread::id g_runner;

aclError remember(void* payload, char*) {
  std::memcpy(g_seen, payload, sizeof g_seen);
  g_runner = std::this_thread::get_id();
  ++g_runs;
  return ACL_SUCCESS;
}

constexpr SoftnpuTaskKind kRemember = {
    .name = "remember", .run = remember, .release = [](void*) { ++g_releases; }, .ready = nullptr, .flags = 0, .visit = nullptr};

TEST_F(DriverTest, APayloadIsCopiedWhole) {
  for (const uint64_t cost : {Task::kSmallCost, Task::kLargeCost}) {
    g_runs = g_releases = 0;
    Bytes payload = pattern(SOFTNPU_TASK_PAYLOAD);
    const Bytes expected = payload;
    ASSERT_ACL(driver()->launch(nullptr, &kRemember, payload.data(), payload.size(), cost));
    std::fill(payload.begin(), payload.end(), 0);
    ASSERT_ACL(aclrtSynchronizeStream(nullptr));
    EXPECT_EQ(Bytes(g_seen, g_seen + sizeof g_seen), expected);
    EXPECT_EQ(g_runs, 1);
    EXPECT_EQ(g_releases, 1);
  }
}

TEST_F(DriverTest, ACheapTaskOnAnIdleStreamHasRunWhenLaunchReturns) {
  Stream stream = make_stream();
  const Bytes payload(SOFTNPU_TASK_PAYLOAD);
  g_runs = 0;
  ASSERT_ACL(driver()->launch(stream, &kRemember, payload.data(), payload.size(), Task::kSmallCost));
  EXPECT_EQ(g_runs, 1);
  EXPECT_EQ(g_runner, std::this_thread::get_id());
}

TEST_F(DriverTest, ATaskThatCannotBeLaunchedIsNotReleased) {
  const Bytes payload(SOFTNPU_TASK_PAYLOAD + 1);
  g_runs = g_releases = 0;
  EXPECT_NE(driver()->launch(nullptr, &kRemember, payload.data(), payload.size(), Task::kSmallCost), ACL_SUCCESS);
  EXPECT_RECENT_ERROR("payload");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE,
                   driver()->launch(reinterpret_cast<void*>(0x77), &kRemember, payload.data(), 8, Task::kSmallCost));
  EXPECT_RECENT_ERROR("stream");
  EXPECT_EQ(g_runs, 0);
  EXPECT_EQ(g_releases, 0);
}

TEST_F(DriverTest, SkippedTaskIsReleased) {
  Stream stream = make_stream();
  const Bytes payload(SOFTNPU_TASK_PAYLOAD);
  g_runs = g_releases = 0;
  ASSERT_ACL(launch(stream, failing_task("breaks")));
  ASSERT_ACL(driver()->launch(stream, &kRemember, payload.data(), payload.size(), Task::kLargeCost));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_EQ(g_runs, 0);
  EXPECT_EQ(g_releases, 1);
}

std::atomic<bool> g_is_ready;

constexpr SoftnpuTaskKind kWaits = {
    .name = "waits",
    .run = [](void*, char*) -> aclError { return ++g_runs, ACL_SUCCESS; },
    .release = nullptr,
    .ready = [](const void*) { return g_is_ready.load(); },
    .flags = 0,
    .visit = nullptr,
};

TEST_F(DriverTest, ATaskRunsWhenItIsReady) {
  Stream stream = make_stream();
  g_runs = 0;
  g_is_ready = false;
  ASSERT_ACL(driver()->launch(stream, &kWaits, "", 1, Task::kSmallCost));
  Flag behind = signal_when_run(stream);
  EXPECT_FALSE(behind.within(20ms));
  EXPECT_EQ(g_runs, 0);
  g_is_ready = true;
  EXPECT_TRUE(behind.within(kPatience));
  EXPECT_EQ(g_runs, 1);
}

constexpr SoftnpuTaskKind kAlways = {.name = "always",
                                     .run = [](void*, char*) -> aclError { return ++g_runs, ACL_SUCCESS; },
                                     .release = nullptr,
                                     .ready = nullptr,
                                     .flags = SOFTNPU_TASK_ALWAYS,
                                     .visit = nullptr};

TEST_F(DriverTest, TaskMarkedAlwaysRunsAfterAFailure) {
  Stream stream = make_stream();
  g_runs = 0;
  ASSERT_ACL(launch(stream, failing_task("breaks")));
  ASSERT_ACL(driver()->launch(stream, &kAlways, "", 1, Task::kLargeCost));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_EQ(g_runs, 1);
}

constexpr SoftnpuTaskKind kAlwaysRemember = {
    .name = "always", .run = remember, .release = nullptr, .ready = nullptr, .flags = SOFTNPU_TASK_ALWAYS, .visit = nullptr};

TEST_F(DriverTest, CapturedTasksCanBeAlteredNewestFirst) {
  const auto alter = [](const SoftnpuTaskKind** kind, void* payload, void* context) {
    auto& seen = *static_cast<std::string*>(context);
    seen += *static_cast<char*>(payload);
    if (seen.size() < 2) return false;
    *kind = &kAlwaysRemember;
    *static_cast<char*>(payload) = 'x';
    return true;
  };
  Stream stream = make_stream();
  std::string seen;
  EXPECT_FALSE(driver()->alter_captured(stream, alter, &seen)) << "the stream is not captured";
  ASSERT_ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  for (const char* name : {"a", "b", "c"}) ASSERT_ACL(driver()->launch(stream, &kAlways, name, 1, Task::kSmallCost));
  EXPECT_TRUE(driver()->alter_captured(stream, alter, &seen));
  EXPECT_EQ(seen, "cb");
  aclmdlRI graph = nullptr;
  ASSERT_ACL(aclmdlRICaptureEnd(stream, &graph));
  std::memset(g_seen, 0, sizeof g_seen);
  g_runs = 0;
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(g_runs, 3);
  EXPECT_EQ(g_seen[0], 'x');
  ASSERT_ACL(aclmdlRIDestroy(graph));
}

TEST_F(DriverTest, FailSetsTheRecentErrorOfTheThread) {
  EXPECT_EQ(driver()->fail("aclnnAdd", ACL_ERROR_RT_AICORE_EXCEPTION, "shapes [2] and [3] do not fit"),
            ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_AICORE_EXCEPTION);
  const std::string message = recent_error();
  EXPECT_NE(message.find("aclnnAdd"), std::string::npos) << message;
  EXPECT_NE(message.find("shapes [2] and [3] do not fit"), std::string::npos) << message;
  std::thread([] { EXPECT_EQ(recent_error(), ""); }).join();
}

}  // namespace
}  // namespace softnpu::test
