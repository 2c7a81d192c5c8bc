// One test per sentence of runtime/stream/ipc_event.h: events that several processes share.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

aclrtEventRecordedStatus query(aclrtEvent event) {
  auto status = aclrtEventRecordedStatus(-1);
  EXPECT_ACL(aclrtQueryEventStatus(event, &status));
  return status;
}

constexpr auto kReached = ACL_EVENT_RECORDED_STATUS_COMPLETE;
constexpr auto kPending = ACL_EVENT_RECORDED_STATUS_NOT_READY;

aclrtIpcEventHandle handle_of(aclrtEvent event) {
  aclrtIpcEventHandle handle{};
  EXPECT_ACL(aclrtIpcGetEventHandle(event, &handle));
  return handle;
}

Event open(const aclrtIpcEventHandle& handle) {
  aclrtEvent event = nullptr;
  EXPECT_ACL(aclrtIpcOpenEventHandle(handle, &event));
  return Event(event);
}

// The bytes of a handle as text, for an environment variable.
std::string to_text(const aclrtIpcEventHandle& handle) {
  std::string text;
  for (const char byte : handle.reserved) {
    text += char('a' + (uint8_t(byte) >> 4));
    text += char('a' + (uint8_t(byte) & 15));
  }
  return text;
}

aclrtIpcEventHandle from_text(const std::string& text) {
  aclrtIpcEventHandle handle{};
  for (size_t index = 0; index < sizeof handle.reserved && 2 * index + 1 < text.size(); ++index) {
    handle.reserved[index] = char((text[2 * index] - 'a') << 4 | (text[2 * index + 1] - 'a'));
  }
  return handle;
}

class IpcEventTest : public AclFixture {};

// --- within one process -------------------------------------------------------------------------------------------------

TEST_F(IpcEventTest, NeverRecordedCountsAsReached) {
  Event event = make_event(ACL_EVENT_IPC);
  Event opened = open(handle_of(event));
  EXPECT_EQ(query(opened), kReached);
  EXPECT_ACL(aclrtSynchronizeEvent(opened));
}

TEST_F(IpcEventTest, RecordIsSeenThroughBothHandles) {
  Stream stream = make_stream(), consumer = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Event opened = open(handle_of(event));
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_EQ(query(event), kPending);
  EXPECT_EQ(query(opened), kPending);
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, opened));
  Flag passed = signal_when_run(consumer);
  EXPECT_FALSE(passed.within(10ms));
  gate.open();
  EXPECT_TRUE(passed.within(kPatience));
  EXPECT_ACL(aclrtSynchronizeEvent(opened));
  EXPECT_EQ(query(event), kReached);
}

TEST_F(IpcEventTest, WaiterWaitsForTheRecordThatWasNewestWhenItCalled) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Event opened = open(handle_of(event));
  Gate first(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, opened));
  Flag passed = signal_when_run(consumer);
  Gate second(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  EXPECT_FALSE(passed.within(10ms));
  first.open();
  EXPECT_TRUE(passed.within(kPatience)) << "the waiter waited for the later record";
  EXPECT_EQ(query(opened), kPending) << "the first record completed the event";
}

TEST_F(IpcEventTest, SynchronizeHasATimeLimit) {
  Stream stream = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Event opened = open(handle_of(event));
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(opened, 10));
  gate.open();
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(opened, kPatienceMs));
}

TEST_F(IpcEventTest, EventMayBeDestroyedWhileAStreamWaits) {
  Stream producer = make_stream(), consumer = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Gate gate(producer);
  ASSERT_ACL(aclrtRecordEvent(event, producer));
  ASSERT_ACL(aclrtStreamWaitEvent(consumer, event));
  ASSERT_ACL(aclrtDestroyEvent(event.release()));
  Flag passed = signal_when_run(consumer);
  EXPECT_FALSE(passed.within(10ms));
  gate.open();
  EXPECT_TRUE(passed.within(kPatience));
}

TEST_F(IpcEventTest, IsReachedAfterAFailureAndAnAbort) {
  REQUIRE_SOFTNPU();
  Stream stream = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Event opened = open(handle_of(event));
  ASSERT_ACL(launch(stream, failing_task("aclnnBroken")));
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(opened, kPatienceMs)) << "another process would wait for ever";
}

TEST_F(IpcEventTest, AbortLeavesNoOtherProcessWaiting) {
  Stream stream = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Event opened = open(handle_of(event));
  {
    Gate gate(stream);
    ASSERT_TRUE(gate.entered().within(kPatience));
    ASSERT_ACL(aclrtRecordEvent(event, stream));
    std::thread opener([&] {
      std::this_thread::sleep_for(10ms);
      gate.open();
    });
    EXPECT_ACL(aclrtStreamAbort(stream));
    opener.join();
  }
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(opened, kPatienceMs));
}

// --- handles ------------------------------------------------------------------------------------------------------------

TEST_F(IpcEventTest, OnlySharedEventsHaveAHandle) {
  Event event = make_event();
  aclrtIpcEventHandle handle{};
  EXPECT_REFUSED(aclrtIpcGetEventHandle(event, &handle));
}

TEST_F(IpcEventTest, OnlyTheCreatorExportsHandles) {
  Event event = make_event(ACL_EVENT_IPC);
  Event opened = open(handle_of(event));
  aclrtIpcEventHandle handle{};
  EXPECT_REFUSED(aclrtIpcGetEventHandle(opened, &handle));
}

TEST_F(IpcEventTest, TamperedHandlesAreRefused) {
  Event event = make_event(ACL_EVENT_IPC);
  const aclrtIpcEventHandle good = handle_of(event);
  aclrtEvent opened = nullptr;
  EXPECT_REFUSED(aclrtIpcOpenEventHandle(aclrtIpcEventHandle{}, &opened));
  for (size_t index = 0; index < 24; ++index) {
    SCOPED_TRACE(index);
    aclrtIpcEventHandle bad = good;
    bad.reserved[index] = char(bad.reserved[index] ^ 0x55);
    EXPECT_REFUSED(aclrtIpcOpenEventHandle(bad, &opened));
  }
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtIpcOpenEventHandle(good, nullptr));
}

TEST_F(IpcEventTest, HandleOfADestroyedEventIsRefused) {
  Event event = make_event(ACL_EVENT_IPC);
  const aclrtIpcEventHandle handle = handle_of(event);
  ASSERT_ACL(aclrtDestroyEvent(event.release()));
  Event other = make_event(ACL_EVENT_IPC);  // may get the same file number
  aclrtEvent opened = nullptr;
  EXPECT_REFUSED(aclrtIpcOpenEventHandle(handle, &opened));
}

TEST_F(IpcEventTest, ManyEventsLeaveNoFiles) {
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  Stream stream = make_stream();
  const auto before = files();
  for (int round = 0; round < 200; ++round) {
    Event event = make_event(ACL_EVENT_IPC);
    Event opened = open(handle_of(event));
    ASSERT_ACL(aclrtRecordEvent(opened, stream));
    ASSERT_ACL(aclrtSynchronizeEvent(event));
  }
  EXPECT_TRUE(eventually([&] { return files() == before; })) << files() << " files, not " << before;
}

// --- two processes ------------------------------------------------------------------------------------------------------

class ChildIpc : public AclFixture {
 protected:
  static std::string setting(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  }
};

TEST_F(ChildIpc, WaitForTheParent) {
  Event event = open(from_text(setting("ACL_TEST_HANDLE")));
  Stream stream = make_stream();
  EXPECT_EQ(query(event), kPending);
  ASSERT_ACL(aclrtStreamWaitEvent(stream, event));
  Flag passed = signal_when_run(stream);
  EXPECT_FALSE(passed.within(10ms));
  std::ofstream(setting("ACL_TEST_FILE")) << "waiting";
  EXPECT_TRUE(passed.within(kPatience)) << "the parent's record was not seen";
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(event, kPatienceMs));
}

TEST_F(ChildIpc, RecordForTheParent) {
  Event event = open(from_text(setting("ACL_TEST_HANDLE")));
  Stream stream = make_stream();
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  std::ofstream(setting("ACL_TEST_FILE")) << "recorded";
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(setting("ACL_TEST_FILE") + ".go"); }));
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(ChildIpc, RecordAndGetKilled) {
  Event event = open(from_text(setting("ACL_TEST_HANDLE")));
  Stream stream = make_stream();
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  raise(SIGKILL);
}

TEST_F(ChildIpc, MakeAnEventAndExit) {
  Event event = make_event(ACL_EVENT_IPC);
  std::ofstream(setting("ACL_TEST_FILE")) << to_text(handle_of(event));
}

class IpcProcessTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    file_ = std::filesystem::temp_directory_path() / ("acl_test_ipc_" + std::to_string(getpid()));
    std::filesystem::remove(file_);
    std::filesystem::remove(file_.string() + ".go");
  }
  void TearDown() override {
    std::filesystem::remove(file_);
    std::filesystem::remove(file_.string() + ".go");
    AclFixture::TearDown();
  }
  Child run(const char* name, aclrtEvent event) const {
    std::vector<std::string> environment = {"ACL_TEST_FILE=" + file_.string()};
    if (event != nullptr) environment.push_back("ACL_TEST_HANDLE=" + to_text(handle_of(event)));
    return run_child(std::string("ChildIpc.") + name, environment);
  }
  bool file_appears() const {
    return eventually([&] { return std::filesystem::exists(file_) && std::filesystem::file_size(file_) > 0; });
  }

  std::filesystem::path file_;
};

TEST_F(IpcProcessTest, AnotherProcessWaitsForARecord) {
  Stream stream = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Gate gate(stream);
  ASSERT_ACL(aclrtRecordEvent(event, stream));
  Child child;
  std::thread runner([&] { child = run("WaitForTheParent", event); });
  EXPECT_TRUE(file_appears());
  gate.open();
  runner.join();
  EXPECT_TRUE(child_passes("the child", child));
}

TEST_F(IpcProcessTest, AnotherProcessRecords) {
  Stream stream = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  Child child;
  std::thread runner([&] { child = run("RecordForTheParent", event); });
  EXPECT_TRUE(file_appears());
  EXPECT_EQ(query(event), kPending);
  EXPECT_ACL(aclrtStreamWaitEvent(stream, event));
  Flag passed = signal_when_run(stream);
  EXPECT_FALSE(passed.within(10ms));
  std::ofstream(file_.string() + ".go") << "go";
  EXPECT_TRUE(passed.within(kPatience));
  EXPECT_EQ(query(event), kReached);
  runner.join();
  EXPECT_TRUE(child_passes("the child", child));
}

TEST_F(IpcProcessTest, RecordOfADeadProcessFailsForAllWaiters) {
  Stream stream = make_stream();
  Event event = make_event(ACL_EVENT_IPC);
  EXPECT_EQ(run("RecordAndGetKilled", event).exit_code, -SIGKILL);
  auto status = aclrtEventRecordedStatus(-1);
  EXPECT_TRUE(eventually([&] { return aclrtQueryEventStatus(event, &status) == ACL_ERROR_RT_IPC_ERROR; }));
  EXPECT_RECENT_ERROR("ended before its stream reached the event");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtSynchronizeEventWithTimeout(event, kPatienceMs));
  EXPECT_ACL(aclrtStreamWaitEvent(stream, event));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
  EXPECT_RECENT_ERROR("record the event again");

  EXPECT_ACL(aclrtRecordEvent(event, stream));
  EXPECT_ACL(aclrtSynchronizeEventWithTimeout(event, kPatienceMs));
  EXPECT_EQ(query(event), kReached);
}

TEST_F(IpcProcessTest, EventOfADeadProcessIsRefused) {
  const Child child = run("MakeAnEventAndExit", nullptr);
  ASSERT_TRUE(child_passes("the child", child));
  std::string text;
  std::ifstream(file_) >> text;
  aclrtEvent event = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtIpcOpenEventHandle(from_text(text), &event));
}

}  // namespace
}  // namespace softnpu::test
