// Failures of collectives: every rank gets an error that names the rank, the operation and the difference, and can continue.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "hccl/world.h"

namespace softnpu::test {
namespace {

constexpr size_t kCount = 1000;

class ChildFailures : public RankTest {
 protected:
  // The stream reports a failure with these words, and the communicator has one of these codes.
  void expect_failure(const std::vector<std::string>& words, std::vector<HcclResult> codes) {
    EXPECT_NE(synchronize(stream()), ACL_SUCCESS);
    for (const std::string& word : words)
      EXPECT_NE(last_message().find(word), std::string::npos) << word << "\n" << last_message();
    EXPECT_NE(std::find(codes.begin(), codes.end(), async_error()), codes.end()) << async_error();
    // The stream works again, and the communicator fails with the same message.
    DeviceBuffer buffer = make_device_buffer(64);
    EXPECT_ACL(aclrtMemsetAsync(buffer, 64, 1, 64, stream()));
    EXPECT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
    EXPECT_HCCL(HcclBarrier(comm(), stream()));
    EXPECT_NE(synchronize(stream()), ACL_SUCCESS);
    for (const std::string& word : words) EXPECT_NE(last_message().find(word), std::string::npos) << last_message();
  }

  DeviceBuffer buffer_;
  void* buffer() {
    if (buffer_ == nullptr) buffer_ = make_device_buffer(kCount * 8 * 8);
    return buffer_;
  }
  void TearDown() override {
    buffer_ = DeviceBuffer();
    RankTest::TearDown();
  }
};

TEST_F(ChildFailures, OtherOperation) {
  if (rank() == 1) {
    EXPECT_HCCL(HcclBroadcast(buffer(), kCount, HCCL_DATA_TYPE_FP32, 0, comm(), stream()));
  } else {
    EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
  }
  expect_failure({"operation differs", "rank 1", "HcclBroadcast (number 1, 1000 elements, float32, root 0)",
                  "HcclAllReduce (number 1, 1000 elements, float32, sum)"},
                 {HCCL_E_PARA, HCCL_E_REMOTE});
}

TEST_F(ChildFailures, OtherCount) {
  const size_t count = rank() == 1 ? kCount - 1 : kCount;
  EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
  expect_failure({"count differs", "rank 1", "999 elements", "1000 elements"}, {HCCL_E_PARA, HCCL_E_REMOTE});
}

TEST_F(ChildFailures, OtherType) {
  const HcclDataType type = rank() == 1 ? HCCL_DATA_TYPE_INT32 : HCCL_DATA_TYPE_FP32;
  EXPECT_HCCL(HcclAllGather(buffer(), buffer(), 8, type, comm(), stream()));
  expect_failure({"data type differs", "rank 1", "int32", "float32"}, {HCCL_E_PARA, HCCL_E_REMOTE});
}

TEST_F(ChildFailures, OtherReduction) {
  const HcclReduceOp op = rank() == 1 ? HCCL_REDUCE_MAX : HCCL_REDUCE_SUM;
  EXPECT_HCCL(HcclReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, op, 0, comm(), stream()));
  expect_failure({"reduction differs", "rank 1", "max", "sum"}, {HCCL_E_PARA, HCCL_E_REMOTE});
}

TEST_F(ChildFailures, OtherRoot) {
  EXPECT_HCCL(HcclBroadcast(buffer(), kCount, HCCL_DATA_TYPE_FP32, rank() == 1 ? 1 : 0, comm(), stream()));
  expect_failure({"root differs", "rank 1", "root 1", "root 0"}, {HCCL_E_PARA, HCCL_E_REMOTE});
}

TEST_F(ChildFailures, OtherMessage) {
  if (rank() == 0) {
    EXPECT_HCCL(HcclSend(buffer(), kCount, HCCL_DATA_TYPE_FP32, 1, comm(), stream()));
  }
  if (rank() == 1) {
    EXPECT_HCCL(HcclRecv(buffer(), kCount - 1, HCCL_DATA_TYPE_FP32, 0, comm(), stream()));
  }
  expect_failure({"count differs", "rank 0", "1000 elements", "999 elements"}, {HCCL_E_PARA, HCCL_E_REMOTE});
}

TEST_F(ChildFailures, OtherNote) {
  const auto note = reinterpret_cast<void (*)(const char*)>(dlsym(RTLD_DEFAULT, "HcclSoftnpuNote"));
  ASSERT_NE(note, nullptr);
  note("forgotten");
  note(nullptr);
  EXPECT_HCCL(HcclBarrier(comm(), stream()));
  ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
  note(rank() == 1 ? "channels_last" : "AVG");
  EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
  note(nullptr);
  expect_failure({"meaning of the data differs", "rank 1", "sum, channels_last)", "sum, AVG)"}, {HCCL_E_PARA, HCCL_E_REMOTE});
}

// An abort ends a collective that waits for another rank. Afterwards the stream is usable, but the communicator is not.
TEST_F(ChildFailures, Aborts) {
  if (rank() != 1) {
    EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
  }
  if (rank() == 0) {
    std::this_thread::sleep_for(100ms);
    EXPECT_ACL(aclrtStreamAbort(stream()));
    EXPECT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
    EXPECT_HCCL(HcclBarrier(comm(), stream()));
    EXPECT_NE(synchronize(stream()), ACL_SUCCESS);
    EXPECT_NE(last_message().find("its stream was aborted"), std::string::npos) << last_message();
    return;
  }
  if (rank() == 1) {
    EXPECT_TRUE(eventually([&] { return async_error() == HCCL_E_REMOTE; }));
    EXPECT_HCCL(HcclBarrier(comm(), stream()));
  }
  expect_failure({"rank 0", "its stream was aborted"}, {HCCL_E_REMOTE});
}

TEST_F(ChildFailures, NeverCalls) {
  if (rank() == 1) {
    EXPECT_TRUE(eventually([&] { return async_error() == HCCL_E_REMOTE; }));
    EXPECT_HCCL(HcclBarrier(comm(), stream()));
    expect_failure({"failed", "did not call it"}, {HCCL_E_REMOTE});
    return;
  }
  EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
  expect_failure({"HCCL_EXEC_TIMEOUT", "HcclAllReduce", "rank 1", "did not call it"}, {HCCL_E_TIMEOUT, HCCL_E_REMOTE});
}

// A rank is stopped, as by a debugger, and continues after the others have timed out.
TEST_F(ChildFailures, Stops) {
  EXPECT_HCCL(HcclBarrier(comm(), stream()));
  ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
  if (rank() == 1) {
    give_sign("pid_" + std::to_string(getpid()));
    give_sign("known");
    raise(SIGSTOP);
    EXPECT_HCCL(HcclBarrier(comm(), stream()));
    expect_failure({"failed", "HCCL_EXEC_TIMEOUT"}, {HCCL_E_REMOTE});
    return;
  }
  ASSERT_TRUE(wait_for_sign("known"));
  EXPECT_HCCL(HcclBarrier(comm(), stream()));
  expect_failure({"HCCL_EXEC_TIMEOUT", "rank 1"}, {HCCL_E_TIMEOUT, HCCL_E_REMOTE});
  give_sign("rank" + std::to_string(rank()) + "_done");
  if (rank() != 0) return;
  for (uint32_t other = 2; other < size(); ++other) EXPECT_TRUE(wait_for_sign("rank" + std::to_string(other) + "_done"));
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("HCCL_TEST_FOLDER"))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("pid_")) kill(std::stoi(name.substr(4)), SIGCONT);
  }
}

// The process is killed while the others wait for it.
TEST_F(ChildFailures, Dies) {
  EXPECT_HCCL(HcclBarrier(comm(), stream()));
  ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
  if (rank() == 1) {
    ASSERT_TRUE(wait_for_sign("waiting"));
    std::this_thread::sleep_for(100ms);
    kill(getpid(), SIGKILL);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
  if (rank() == 0) give_sign("waiting");
  expect_failure({"rank 1", ""}, {HCCL_E_REMOTE});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);  // 2 s on a machine that is not busy
}

// The process is killed while data goes between the ranks.
TEST_F(ChildFailures, DiesDuringATransfer) {
  constexpr size_t kLarge = size_t{4} << 20;
  DeviceBuffer large = make_device_buffer(kLarge * 4);
  std::thread killer;
  if (rank() == 1) {
    killer = std::thread([] {
      std::this_thread::sleep_for(200ms);
      kill(getpid(), SIGKILL);
    });
  }
  aclError code = ACL_SUCCESS;
  while (code == ACL_SUCCESS) {
    EXPECT_HCCL(HcclAllReduce(large, large, kLarge, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, comm(), stream()));
    code = synchronize(stream());
  }
  EXPECT_NE(last_message().find("rank 1"), std::string::npos) << last_message();
  EXPECT_EQ(async_error(), HCCL_E_REMOTE);
  if (killer.joinable()) killer.join();
}

TEST_F(ChildFailures, DestroysWhileOthersWait) {
  if (rank() == 1) {
    ASSERT_TRUE(wait_for_sign("waiting"));
    EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
    std::this_thread::sleep_for(50ms);
    destroy_comm();  // the all-reduce waits for rank 2, which never calls it
    EXPECT_NE(synchronize(stream()), ACL_SUCCESS);
    EXPECT_NE(last_message().find("was destroyed"), std::string::npos) << last_message();
    return;
  }
  if (rank() == 2) {
    EXPECT_TRUE(eventually([&] { return async_error() == HCCL_E_REMOTE; }));
    return;
  }
  EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
  give_sign("waiting");
  expect_failure({"rank 1", "destroyed its communicator"}, {HCCL_E_REMOTE});
}

using Settings = std::vector<Environment>;
const Settings kSharedMemory(3);
const Settings kTcp(3, {"SOFTNPU_HCCL_TRANSPORT=tcp"});
const Settings kTwoHosts = {{"SOFTNPU_HCCL_HOST=a"}, {"SOFTNPU_HCCL_HOST=a"}, {"SOFTNPU_HCCL_HOST=b"}};

Settings with(Settings settings, const std::string& more) {
  for (Environment& environment : settings) environment.push_back(more);
  return settings;
}

class Failures : public ::testing::TestWithParam<Settings> {};

TEST_P(Failures, RanksThatCallDifferentOperations) {
  for (const char* what : {"Operation", "Count", "Type", "Reduction", "Root", "Note", "Message"}) {
    EXPECT_WORLD_PASSES(std::string(what) == "Message" ? 2 : 3, std::string("ChildFailures.Other") + what, GetParam());
  }
}
TEST_P(Failures, ARankThatNeverCalls) {
  EXPECT_WORLD_PASSES(3, "ChildFailures.NeverCalls", with(GetParam(), "HCCL_EXEC_TIMEOUT=1"));
}
TEST_P(Failures, ARankThatAbortsItsStream) { EXPECT_WORLD_PASSES(3, "ChildFailures.Aborts", GetParam()); }
TEST_P(Failures, ARankThatStops) { EXPECT_WORLD_PASSES(3, "ChildFailures.Stops", with(GetParam(), "HCCL_EXEC_TIMEOUT=2")); }
TEST_P(Failures, ARankThatDies) {
  for (const char* const filter : {"ChildFailures.Dies", "ChildFailures.DiesDuringATransfer"}) {
    const std::vector<Child> world = run_world(3, filter, GetParam());
    EXPECT_EQ(world[1].exit_code, -SIGKILL);
    EXPECT_PRED_FORMAT1(world_passes, std::vector({world[0], world[2]}));
  }
}
TEST_P(Failures, ARankThatDestroysItsCommunicator) {
  EXPECT_WORLD_PASSES(3, "ChildFailures.DestroysWhileOthersWait", GetParam());
}
std::string name_of(const ::testing::TestParamInfo<Settings>& info) {
  constexpr const char* kNames[] = {"SharedMemory", "Tcp", "TwoHosts"};
  return kNames[info.index];
}
INSTANTIATE_TEST_SUITE_P(, Failures, ::testing::Values(kSharedMemory, kTcp, kTwoHosts), name_of);

}  // namespace
}  // namespace softnpu::test
