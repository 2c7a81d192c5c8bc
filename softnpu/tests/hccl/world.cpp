#include "hccl/world.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <thread>

#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr int kRootInfos = 8;  // communicators that one rank process can create

constexpr std::string_view kHostVariable = "SOFTNPU_HCCL_HOST=";

// The hosts of the ranks, separated by commas.
std::string hosts_of(uint32_t size, const std::vector<Environment>& environments) {
  std::string hosts;
  for (uint32_t rank = 0; rank < size; ++rank) {
    for (const std::string& entry : environments[environments.size() == 1 ? 0 : rank]) {
      if (entry.starts_with(kHostVariable)) hosts += entry.substr(kHostVariable.size());
    }
    hosts += ",";
  }
  return hosts;
}

std::filesystem::path world_folder() { return variable("HCCL_TEST_FOLDER"); }

}  // namespace

std::vector<Child> run_world(uint32_t size, const std::string& filter, const std::vector<Environment>& environments) {
  const TempDir folder;
  for (int number = 0; number < kRootInfos; ++number) {
    HcclRootInfo info{};
    EXPECT_HCCL(HcclGetRootInfo(&info));
    write_file(folder.path() / ("root_info" + std::to_string(number)), std::string(info.internal, sizeof info.internal));
  }
  std::vector<Child> children(size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    Environment environment = environments[environments.size() == 1 ? 0 : rank];
    environment.push_back("HCCL_TEST_FOLDER=" + folder.path().string());
    environment.push_back("HCCL_TEST_RANK=" + std::to_string(rank));
    environment.push_back("HCCL_TEST_SIZE=" + std::to_string(size));
    environment.push_back("HCCL_TEST_HOSTS=" + hosts_of(size, environments));
    threads.emplace_back([&children, &filter, rank, environment] { children[rank] = run_child(filter, environment); });
  }
  for (std::thread& thread : threads) thread.join();
  return children;
}

::testing::AssertionResult world_passes(const char* expression, const std::vector<Child>& world) {
  std::string report;
  for (size_t rank = 0; rank < world.size(); ++rank) {
    const Child& child = world[rank];
    if (child.passed()) continue;
    report += "\n--- rank " + std::to_string(rank) + (child.timed_out ? " ran into its time limit" : "") + ", exit code " +
              std::to_string(child.exit_code) + "\n" + child.output;
  }
  if (report.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expression << report;
}

::testing::AssertionResult gives(const char*, const char* expression, HcclResult expected, HcclResult code) {
  if (code == expected) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expression << "\n  gives " << HcclGetErrorString(code) << " (" << code << "), not "
                                       << HcclGetErrorString(expected) << " (" << expected << ")\n  " << recent_error();
}

uint32_t world_rank() { return static_cast<uint32_t>(std::atoi(variable("HCCL_TEST_RANK").c_str())); }
uint32_t world_size() { return static_cast<uint32_t>(std::atoi(variable("HCCL_TEST_SIZE").c_str())); }

std::vector<uint32_t> world_order() {
  std::vector<std::string> hosts;
  std::istringstream list(variable("HCCL_TEST_HOSTS"));
  for (std::string host; std::getline(list, host, ',');) hosts.push_back(host);
  hosts.resize(world_size());
  std::vector<uint32_t> order;
  for (uint32_t first = 0; first < hosts.size(); ++first) {
    if (std::find(hosts.begin(), hosts.begin() + first, hosts[first]) != hosts.begin() + first) continue;
    for (uint32_t rank = first; rank < hosts.size(); ++rank) {
      if (hosts[rank] == hosts[first]) order.push_back(rank);
    }
  }
  return order;
}

HcclRootInfo world_root_info() {
  static int next = 0;
  HcclRootInfo info{};
  const std::string content = read_file(world_folder() / ("root_info" + std::to_string(next++)));
  EXPECT_EQ(content.size(), sizeof info);
  std::memcpy(&info, content.data(), std::min(content.size(), sizeof info));
  return info;
}

void LoneRankTest::SetUp() {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(static_cast<int32_t>(rank())));
}

void LoneRankTest::TearDown() {
  recent_error();
  EXPECT_ACL(aclrtResetDevice(static_cast<int32_t>(rank())));
  EXPECT_ACL(aclFinalize());
}

aclError LoneRankTest::synchronize(aclrtStream stream) {
  const aclError code = aclrtSynchronizeStream(stream);
  message_ = code == ACL_SUCCESS ? "" : recent_error();
  return code;
}

void RankTest::SetUp() {
  LoneRankTest::SetUp();
  const HcclRootInfo info = world_root_info();
  ASSERT_HCCL(HcclCommInitRootInfo(size(), &info, rank(), &comm_));
  stream_ = make_stream();
}

void RankTest::TearDown() {
  stream_ = Stream();
  if (comm_ != nullptr) destroy_comm();
  LoneRankTest::TearDown();
}

void give_sign(const std::string& name) { write_file(world_folder() / name, "x"); }

bool wait_for_sign(const std::string& name, milliseconds limit) {
  return eventually([&] { return std::filesystem::exists(world_folder() / name); }, limit);
}

}  // namespace softnpu::test
