// The ledger of device memory of all processes. Each test has its own ledger, in its own folder.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "testing/buffers.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_SOFTNPU(); }

  std::vector<std::string> environment() const {
    return {"SOFTNPU_DEVICE_MEMORY=64M", "SOFTNPU_HOST_MEMORY=64M", "SOFTNPU_LEDGER_DIR=" + folder_.path().string()};
  }

  TempDir folder_;
};

using ChildLedger = AclFixture;

aclError allocate(size_t bytes) {
  void* block = nullptr;
  return aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
}

size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  EXPECT_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  return free;
}

TEST_F(ChildLedger, SeesThatAnotherProcessHolds40Of64) {
  EXPECT_EQ(free_bytes(), 24 * kMiB);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, allocate(32 * kMiB));
  EXPECT_RECENT_ERROR("others hold " + std::to_string(40 * kMiB));
  EXPECT_ACL(allocate(24 * kMiB));
  EXPECT_EQ(free_bytes(), 0u);
}

TEST_F(ChildLedger, Holds40WhileAnotherProcessLooks) {
  DeviceBuffer held = make_device_buffer(40 * kMiB);
  EXPECT_CHILD_PASSES("ChildLedger.SeesThatAnotherProcessHolds40Of64");
  EXPECT_EQ(free_bytes(), 24 * kMiB) << "the memory of a process that has ended is still counted";
  EXPECT_ACL(allocate(24 * kMiB));
}

TEST_F(ChildLedger, HasItsOwnLedger) { EXPECT_EQ(free_bytes(), 64 * kMiB); }

TEST_F(LedgerTest, LedgerThatCannotBeSharedIsReportedAndReplaced) {
  const Child child = run_child("ChildLedger.HasItsOwnLedger", {"SOFTNPU_DEVICE_MEMORY=64M", "SOFTNPU_LEDGER_DIR=/proc/nowhere"});
  EXPECT_TRUE(child.passed()) << child.output;
  EXPECT_NE(child.output.find("the ledger /proc/nowhere/"), std::string::npos) << child.output;
}

TEST_F(LedgerTest, TwoProcessesShareOneLimit) {
  EXPECT_CHILD_PASSES("ChildLedger.Holds40WhileAnotherProcessLooks", environment());
}

TEST_F(ChildLedger, IsKilledWith48) {
  ASSERT_ACL(allocate(48 * kMiB));
  raise(SIGKILL);
}

// The forked child lives on, and its memory is not counted.
TEST_F(ChildLedger, IsKilledWith48AndLeavesAForkedChild) {
  ASSERT_ACL(allocate(48 * kMiB));
  if (fork() == 0) {
    for (const int output : {STDOUT_FILENO, STDERR_FILENO}) close(output);  // so that a reader does not wait for this process
    sleep(3);
    _exit(0);
  }
  raise(SIGKILL);
}

TEST_F(ChildLedger, GetsTheMemoryOfKilledProcesses) {
  for (const char* const victim : {"ChildLedger.IsKilledWith48", "ChildLedger.IsKilledWith48AndLeavesAForkedChild"}) {
    const Child child = run_child(victim);
    EXPECT_EQ(child.exit_code, -SIGKILL) << victim << "\n" << child.output;
    DeviceBuffer everything = make_device_buffer(64 * kMiB);
    EXPECT_NE(everything.get(), nullptr) << "the memory of " << victim << " was not released";
  }
}

TEST_F(LedgerTest, MemoryOfAKilledProcessIsReleased) {
  EXPECT_CHILD_PASSES("ChildLedger.GetsTheMemoryOfKilledProcesses", environment());
}

std::filesystem::path ledger_file() {
  const std::filesystem::path folder(std::getenv("SOFTNPU_LEDGER_DIR"));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) return entry.path();
  return {};
}

TEST_F(ChildLedger, TruncatesItsFile) {
  REQUIRE_SOFTNPU();
  DeviceBuffer held = make_device_buffer(16 * kMiB);
  for (const size_t left : {size_t{0}, size_t{100}}) {
    std::filesystem::resize_file(ledger_file(), left);
    ASSERT_ACL(launch(nullptr, {.run = [](char*) { return ACL_SUCCESS; }}));  // also the busy time is in the file
    ASSERT_ACL(aclrtSynchronizeStream(nullptr));
    EXPECT_EQ(free_bytes(), 48 * kMiB);
    DeviceBuffer more = make_device_buffer(8 * kMiB);
    EXPECT_EQ(free_bytes(), 40 * kMiB);
  }
  EXPECT_CHILD_PASSES("ChildLedger.SeesThatAnotherProcessHolds16Of64");
}

TEST_F(ChildLedger, SeesThatAnotherProcessHolds16Of64) { EXPECT_EQ(free_bytes(), 48 * kMiB); }

TEST_F(LedgerTest, TruncatedFileIsReinitialisedAndReported) {
  const Child child = run_child("ChildLedger.TruncatesItsFile", environment());
  EXPECT_TRUE(child.passed()) << child.output;
  EXPECT_NE(child.output.find("the ledger " + folder_.path().string()), std::string::npos) << child.output;
}

// The mutex follows the first eight bytes, and begins with the TID of its owner. The test writes the TID of init, which is alive
// and does not unlock it.
TEST_F(ChildLedger, FindsItsFileLocked) {
  DeviceBuffer held = make_device_buffer(16 * kMiB);
  {
    std::fstream file(ledger_file(), std::ios::binary | std::ios::in | std::ios::out);
    const uint32_t owner = 1;
    file.seekp(8);
    file.write(reinterpret_cast<const char*>(&owner), sizeof owner);
  }
  EXPECT_EQ(free_bytes(), 48 * kMiB);
  EXPECT_CHILD_PASSES("ChildLedger.SeesThatAnotherProcessHolds16Of64");
}

TEST_F(LedgerTest, FileThatWasLeftLockedIsUnlockedAndReported) {
  const Child child = run_child("ChildLedger.FindsItsFileLocked", environment());
  EXPECT_TRUE(child.passed()) << child.output;
  EXPECT_NE(child.output.find("was left locked"), std::string::npos) << child.output;
}

TEST_F(ChildLedger, DevicesShareTheHost) {
  DeviceBuffer first = make_device_buffer(40 * kMiB);
  ASSERT_ACL(aclrtSetDevice(1));
  EXPECT_EQ(free_bytes(), 24 * kMiB);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, allocate(32 * kMiB));
  EXPECT_RECENT_ERROR("host");
  EXPECT_ACL(aclrtFree(first.release()));
  EXPECT_ACL(allocate(32 * kMiB));
  EXPECT_ACL(aclrtResetDevice(1));
}

TEST_F(LedgerTest, AllDevicesTogetherStayWithinTheMemoryOfTheHost) {
  EXPECT_CHILD_PASSES("ChildLedger.DevicesShareTheHost", environment());
}

TEST_F(ChildLedger, IsTheOnlyProcess) {
  EXPECT_EQ(free_bytes(), 64 * kMiB);
  const Bytes contents = pattern(1000);
  EXPECT_EQ(download(device_copy_of(contents), 1000), contents);
}

TEST_F(LedgerTest, FileIsPrivateToTheUser) {
  EXPECT_CHILD_PASSES("ChildLedger.IsTheOnlyProcess", environment());
  const auto files = std::filesystem::directory_iterator(folder_.path());
  ASSERT_EQ(std::distance(begin(files), end(files)), 1);
  const auto file = *std::filesystem::directory_iterator(folder_.path());
  struct stat about = {};
  ASSERT_EQ(stat(file.path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(about.st_uid, geteuid());
}

TEST_F(LedgerTest, UnusableLedgerIsReplacedByOneOfTheProcess) {
  EXPECT_CHILD_PASSES("ChildLedger.IsTheOnlyProcess", environment());
  const auto file = std::filesystem::directory_iterator(folder_.path())->path();
  const auto expect_own_account = [&](const char* what) {
    std::vector<std::string> changed = environment();
    changed.insert(changed.end(), {"ASCEND_GLOBAL_LOG_LEVEL=2", "ASCEND_SLOG_PRINT_TO_STDOUT=1"});
    const Child child = run_child("ChildLedger.IsTheOnlyProcess", changed);
    EXPECT_TRUE(child.passed()) << what << "\n" << child.output;
    EXPECT_NE(child.output.find("[WARNING] RUNTIME"), std::string::npos) << what << ": no warning\n" << child.output;
  };
  write_file(file, std::string(100'000, 'x'));
  expect_own_account("something else in the file");
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  expect_own_account("a file that others may read");
  std::filesystem::remove(file);
  std::filesystem::create_symlink(folder_.path() / "elsewhere", file);
  expect_own_account("a link");
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  expect_own_account("a folder");
  std::filesystem::remove_all(folder_.path());
  expect_own_account("no such folder");
}

}  // namespace
}  // namespace softnpu::test
