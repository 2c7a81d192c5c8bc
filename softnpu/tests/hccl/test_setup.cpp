// The set-up of communicators: ranks that do not match, ranks that do not connect, used root infos; and what is left afterwards.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "hccl/world.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

const Environment kTcp = {"SOFTNPU_HCCL_TRANSPORT=tcp"};

class ChildSetUp : public LoneRankTest {
 protected:
  void TearDown() override {
    // The process still works: it can create another communicator.
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
  for (const char* word : {"different numbers of ranks", "rank 0 (process", "has 2", "rank 1 (process", "has 3"}) {
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
  EXPECT_EQ(comm, nullptr);
}

TEST_F(ChildSetUp, SameRank) {
  const HcclRootInfo info = world_root_info();
  HcclComm comm = nullptr;
  EXPECT_HCCL_ERROR(HCCL_E_PARA, HcclCommInitRootInfo(3, &info, 1, &comm));
  EXPECT_RECENT_ERROR("two processes have rank 1");
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

TEST_F(ChildSetUp, MissingRanks) {
  const HcclRootInfo info = world_root_info();
  HcclComm comm = nullptr;
  EXPECT_HCCL_ERROR(HCCL_E_TIMEOUT, HcclCommInitRootInfo(4, &info, rank(), &comm));
  EXPECT_RECENT_ERROR("ranks 2, 3 of 4 did not connect within 1 s (HCCL_CONNECT_TIMEOUT)");
}

TEST_F(ChildSetUp, UsedRootInfo) {
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

// A root info of a process that has ended.
TEST_F(ChildSetUp, WritesARootInfo) {
  HcclRootInfo info{};
  ASSERT_HCCL(HcclGetRootInfo(&info));
  write_file(std::getenv("HCCL_TEST_FILE"), std::string(info.internal, sizeof info.internal));
}

TEST_F(ChildSetUp, ConnectsToAClosedPort) {
  const std::string content = read_file(std::getenv("HCCL_TEST_FILE"));
  HcclRootInfo info{};
  HcclComm comm = nullptr;
  ASSERT_EQ(content.size(), sizeof info);
  std::memcpy(&info, content.data(), sizeof info);
  EXPECT_HCCL_ERROR(HCCL_E_TCP_CONNECT, HcclCommInitRootInfo(1, &info, 0, &comm));
  const std::string message = recent_error();
  for (const char* word : {"connect() to 127.0.0.1:", "Connection refused", "firewall"}) {
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
}

TEST(SetUp, AClosedPort) {
  const TempDir folder;
  const Environment environment = {"HCCL_TEST_FILE=" + (folder.path() / "root_info").string(), "HCCL_IF_IP=127.0.0.1"};
  EXPECT_WORLD_PASSES(1, "ChildSetUp.WritesARootInfo", {environment});
  EXPECT_WORLD_PASSES(1, "ChildSetUp.ConnectsToAClosedPort", {environment});
}

TEST(SetUp, RanksThatDisagree) {
  EXPECT_WORLD_PASSES(2, "ChildSetUp.OtherSize");
  EXPECT_WORLD_PASSES(2, "ChildSetUp.SameRank");
  EXPECT_WORLD_PASSES(2, "ChildSetUp.SameDevice");
}
TEST(SetUp, RanksThatDoNotConnect) {
  const char* const before = std::getenv("HCCL_CONNECT_TIMEOUT");
  ASSERT_EQ(before, nullptr);
  EXPECT_CHILD_PASSES("ChildParent.MissingRanks", {"HCCL_CONNECT_TIMEOUT=1"});
}
TEST(ChildParent, MissingRanks) { EXPECT_WORLD_PASSES(2, "ChildSetUp.MissingRanks", {{"HCCL_CONNECT_TIMEOUT=1"}}); }
TEST(SetUp, AUsedRootInfo) { EXPECT_WORLD_PASSES(1, "ChildSetUp.UsedRootInfo"); }

// --- leftovers ---

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
