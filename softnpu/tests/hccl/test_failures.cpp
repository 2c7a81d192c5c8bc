// What goes wrong between ranks: each rank gets an error that names rank, operation and what differs, and can go on afterwards.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "hccl/world.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

constexpr size_t kCount = 1000;

class ChildFailures : public RankTest {
 protected:
  // The stream reports a failure with these words, and the communicator has that error.
  void expect_failure(const std::vector<std::string>& words, std::vector<HcclResult> codes) {
    EXPECT_NE(synchronize(stream()), ACL_SUCCESS);
    for (const std::string& word : words)
      EXPECT_NE(last_message().find(word), std::string::npos) << word << "\n" << last_message();
    EXPECT_NE(std::find(codes.begin(), codes.end(), async_error()), codes.end()) << async_error();
    // The stream is clean, and the communicator refuses with the same sentence.
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
    expect_failure({"count differs", "rank 0", "1000 elements", "999 elements"}, {HCCL_E_PARA});
  } else {
    EXPECT_TRUE(eventually([&] { return async_error() == HCCL_E_REMOTE; }));
    EXPECT_HCCL(HcclBarrier(comm(), stream()));
    EXPECT_NE(synchronize(stream()), ACL_SUCCESS);
  }
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

// Stopped in the middle, as by a debugger, and continued when the others have given up.
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

// Ends without a word while the others wait for it.
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

TEST_F(ChildFailures, DestroysWhileOthersWait) {
  if (rank() == 1) {
    ASSERT_TRUE(wait_for_sign("waiting"));
    EXPECT_HCCL(HcclAllReduce(buffer(), buffer(), kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm(), stream()));
    std::this_thread::sleep_for(50ms);
    destroy_comm();  // rank 2 never comes: this one is stuck
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

const Environment kTcp = {"SOFTNPU_HCCL_TRANSPORT=tcp"};
const Environment kSharedMemory = {};

Environment with(Environment environment, const std::string& more) {
  environment.push_back(more);
  return environment;
}

class Failures : public ::testing::TestWithParam<Environment> {};

TEST_P(Failures, RanksThatDoDifferentThings) {
  for (const char* what : {"Operation", "Count", "Type", "Reduction", "Root", "Message"}) {
    EXPECT_WORLD_PASSES(std::string(what) == "Message" ? 2 : 3, std::string("ChildFailures.Other") + what, {GetParam()});
  }
}
TEST_P(Failures, ARankThatNeverCalls) {
  EXPECT_WORLD_PASSES(3, "ChildFailures.NeverCalls", {with(GetParam(), "HCCL_EXEC_TIMEOUT=1")});
}
TEST_P(Failures, ARankThatStops) { EXPECT_WORLD_PASSES(3, "ChildFailures.Stops", {with(GetParam(), "HCCL_EXEC_TIMEOUT=2")}); }
TEST_P(Failures, ARankThatDies) {
  const std::vector<Child> world = run_world(3, "ChildFailures.Dies", {GetParam()});
  EXPECT_EQ(world[1].exit_code, -SIGKILL);
  EXPECT_PRED_FORMAT1(world_passes, std::vector({world[0], world[2]}));
}
TEST_P(Failures, ARankThatDestroysItsCommunicator) {
  EXPECT_WORLD_PASSES(3, "ChildFailures.DestroysWhileOthersWait", {GetParam()});
}
INSTANTIATE_TEST_SUITE_P(, Failures, ::testing::Values(kSharedMemory, kTcp),
                         [](const auto& info) { return info.param.empty() ? "SharedMemory" : "Tcp"; });

// --- set-up ---

class ChildSetUp : public LoneRankTest {
 protected:
  void TearDown() override {
    // The process is usable: it can be the only rank of another communicator.
    HcclRootInfo info{};
    HcclComm comm = nullptr;
    EXPECT_HCCL(HcclGetRootInfo(&info));
    EXPECT_HCCL(HcclCommInitRootInfo(1, &info, 0, &comm));
    EXPECT_HCCL(HcclCommDestroy(comm));
    LoneRankTest::TearDown();
  }
};

TEST_F(ChildSetUp, OtherSize) {
  const HcclRootInfo info = world_root_info();
  HcclComm comm = nullptr;
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommInitRootInfo(rank() == 1 ? 3 : 2, &info, rank(), &comm));
  const std::string message = recent_error();
  for (const char* word : {"do not agree how many", "rank 0 (process", "says 2", "rank 1 (process", "says 3"}) {
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
  EXPECT_EQ(comm, nullptr);
}

TEST_F(ChildSetUp, SameRank) {
  const HcclRootInfo info = world_root_info();
  HcclComm comm = nullptr;
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommInitRootInfo(3, &info, 1, &comm));
  EXPECT_RECENT_ERROR("two processes want to be rank 1");
}

TEST_F(ChildSetUp, SameDevice) {
  ASSERT_ACL(aclrtSetDevice(5));
  const HcclRootInfo info = world_root_info();
  HcclComm comm = nullptr;
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommInitRootInfo(2, &info, rank(), &comm));
  EXPECT_RECENT_ERROR("two ranks use one device: rank ");
  ASSERT_ACL(aclrtResetDevice(5));
  ASSERT_ACL(aclrtSetDevice(int32_t(rank())));
}

TEST_F(ChildSetUp, NobodyElse) {
  const HcclRootInfo info = world_root_info();
  HcclComm comm = nullptr;
  EXPECT_HCCL_ERROR(HCCL_E_TIMEOUT, HcclCommInitRootInfo(4, &info, rank(), &comm));
  EXPECT_RECENT_ERROR("ranks 2, 3 of 4 did not come within 1 s (HCCL_CONNECT_TIMEOUT)");
}

TEST_F(ChildSetUp, RootIsGone) {
  const HcclRootInfo info = world_root_info();
  HcclComm comm = nullptr;
  HcclRootInfo damaged = info;
  damaged.internal[12] ^= 1;
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommInitRootInfo(1, &damaged, 0, &comm));
  EXPECT_RECENT_ERROR("damaged");
  EXPECT_HCCL(HcclCommInitRootInfo(1, &info, 0, &comm));
  EXPECT_HCCL(HcclCommDestroy(comm));
  EXPECT_HCCL_ERROR(HCCL_E_TCP_CONNECT, HcclCommInitRootInfo(1, &info, 0, &comm));  // a root info is for one communicator
  EXPECT_RECENT_ERROR("did not accept this rank");
}

TEST(SetUp, RanksThatDisagree) {
  EXPECT_WORLD_PASSES(2, "ChildSetUp.OtherSize");
  EXPECT_WORLD_PASSES(2, "ChildSetUp.SameRank");
  EXPECT_WORLD_PASSES(2, "ChildSetUp.SameDevice");
}
TEST(SetUp, RanksThatDoNotCome) {
  const char* const before = std::getenv("HCCL_CONNECT_TIMEOUT");
  ASSERT_EQ(before, nullptr);
  EXPECT_CHILD_PASSES("ChildParent.NobodyElse", {"HCCL_CONNECT_TIMEOUT=1"});
}
TEST(ChildParent, NobodyElse) { EXPECT_WORLD_PASSES(2, "ChildSetUp.NobodyElse", {{"HCCL_CONNECT_TIMEOUT=1"}}); }
TEST(SetUp, ARootInfoThatIsOver) { EXPECT_WORLD_PASSES(1, "ChildSetUp.RootIsGone"); }

// --- strangers ---

// Connects to whatever this process listens at, and sends garbage or nothing.
class ChildStrangers : public LoneRankTest {};

std::vector<uint16_t> listening_ports() {
  std::vector<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:[")) inodes.push_back(target.substr(8, target.size() - 9));
  }
  std::vector<uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string index, local, remote, state, skip, inode;
    words >> index >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
    if (state == "0A" && std::find(inodes.begin(), inodes.end(), inode) != inodes.end()) {
      ports.push_back(uint16_t(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

int connect_stranger(uint16_t port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(file, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
  return file;
}

TEST_F(ChildStrangers, GetNowhere) {
  HcclRootInfo info{};
  EXPECT_HCCL(HcclGetRootInfo(&info));
  const std::vector<uint16_t> ports = listening_ports();
  ASSERT_EQ(ports.size(), 1u);
  std::vector<int> files;
  for (int number = 0; number < 40; ++number) {
    const int file = connect_stranger(ports[0]);
    const Bytes garbage = pattern(size_t(number * number * 10), uint32_t(number));
    (void)!send(file, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    if (number % 3 == 0) {
      shutdown(file, SHUT_WR);
    }
    files.push_back(file);
  }
  HcclComm comm = nullptr;
  EXPECT_HCCL(HcclCommInitRootInfo(1, &info, 0, &comm));
  // Whoever sent a whole message or ended it is closed, with nothing more than the 32 bytes of the greeting.
  for (int number = 0; number < 40; ++number) {
    if (number % 3 != 0 && number * number * 10 < 88) continue;
    size_t total = 0;
    char bytes[256];
    for (ssize_t got; (got = recv(files[size_t(number)], bytes, sizeof bytes, 0)) > 0;) total += size_t(got);
    EXPECT_LE(total, 32u);
  }
  for (const int file : files) close(file);
  EXPECT_HCCL(HcclCommDestroy(comm));
}

TEST(SetUp, StrangersGetNowhere) { EXPECT_WORLD_PASSES(1, "ChildStrangers.GetNowhere", {{"HCCL_IF_IP=127.0.0.1"}}); }

// --- what is left ---

size_t shared_memory_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find("hccl") != std::string::npos) ++count;
  }
  return count;
}

class ChildLeftovers : public RankTest {};

size_t open_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

size_t mappings(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(name) != std::string::npos ? 1 : 0;
  return count;
}

TEST_F(ChildLeftovers, AreNone) {
  EXPECT_HCCL(HcclBarrier(comm(), stream()));
  ASSERT_EQ(synchronize(stream()), ACL_SUCCESS);
  const size_t files = open_files();
  const HcclRootInfo info = world_root_info();
  HcclComm second = nullptr;
  ASSERT_HCCL(HcclCommInitRootInfo(size(), &info, rank(), &second));
  EXPECT_HCCL(HcclBarrier(second, stream()));
  ASSERT_EQ(synchronize(stream()), ACL_SUCCESS) << last_message();
  EXPECT_HCCL(HcclCommDestroy(second));
  EXPECT_TRUE(eventually([&] { return open_files() <= files; })) << open_files() << " files, not " << files;
  destroy_comm();
  EXPECT_TRUE(eventually([&] { return mappings("memfd:softnpu_hccl") == 0; }));
}

TEST(Leftovers, AreNone) {
  const size_t before = shared_memory_files();
  EXPECT_WORLD_PASSES(2, "ChildLeftovers.AreNone");
  EXPECT_WORLD_PASSES(2, "ChildLeftovers.AreNone", {kTcp});
  EXPECT_EQ(shared_memory_files(), before);
}

}  // namespace
}  // namespace softnpu::test
