// Several ranks, each a process of its own, for the tests of the collective library.
//
//   TEST(Barrier, HoldsAllRanks) { EXPECT_WORLD_PASSES(3, "ChildBarrier.HoldsAllRanks"); }
//
//   class ChildBarrier : public RankTest {};
//   TEST_F(ChildBarrier, HoldsAllRanks) { ... rank(), size(), comm(), stream() ... }   // runs in every rank
//
// The parent process creates the root info and is not a rank itself.
#pragma once

#include <string>
#include <vector>

#include "hccl/hccl.h"
#include "testing/buffers.h"

namespace softnpu::test {

using Environment = std::vector<std::string>;  // "NAME=value"

// Starts ranks 0 to size-1 and waits for all. `environments` has one entry for all ranks, or one for each rank.
std::vector<Child> run_world(uint32_t size, const std::string& filter, const std::vector<Environment>& environments = {{}});
::testing::AssertionResult world_passes(const char* expression, const std::vector<Child>& world);
#define EXPECT_WORLD_PASSES(...) EXPECT_PRED_FORMAT1(::softnpu::test::world_passes, ::softnpu::test::run_world(__VA_ARGS__))

// The call succeeds, or returns exactly `code`; a failed check shows the recent error.
#define EXPECT_HCCL(call) EXPECT_PRED_FORMAT2(::softnpu::test::gives, HCCL_SUCCESS, call)
#define ASSERT_HCCL(call) ASSERT_PRED_FORMAT2(::softnpu::test::gives, HCCL_SUCCESS, call)
#define EXPECT_HCCL_ERROR(code, call) EXPECT_PRED_FORMAT2(::softnpu::test::gives, code, call)
::testing::AssertionResult gives(const char*, const char* expression, HcclResult expected, HcclResult code);

// What the parent passed to this rank.
uint32_t world_rank();
uint32_t world_size();
// The order in which reductions combine the ranks: host by host, where SOFTNPU_HCCL_HOST of the environments names the hosts.
std::vector<uint32_t> world_order();
// A root info is for one communicator; each call returns the next one.
HcclRootInfo world_root_info();

// A rank on the device of its number, without a communicator.
class LoneRankTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  uint32_t rank() const { return world_rank(); }
  uint32_t size() const { return world_size(); }
  // Synchronizes the stream, and stores the message of a failure for last_message().
  aclError synchronize(aclrtStream stream);
  const std::string& last_message() const { return message_; }

 private:
  std::string message_;
};

// A rank with a communicator of all ranks and a stream.
class RankTest : public LoneRankTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  HcclComm comm() const { return comm_; }
  aclrtStream stream() const { return stream_; }
  HcclResult async_error() const {
    HcclResult result = HCCL_SUCCESS;
    EXPECT_HCCL(HcclGetCommAsyncError(comm_, &result));
    return result;
  }
  void destroy_comm() {
    EXPECT_HCCL(HcclCommDestroy(comm_));
    comm_ = nullptr;
  }

 private:
  HcclComm comm_ = nullptr;
  Stream stream_;
};

// Signs between the ranks of a world. A sign is a file in a folder that all ranks see.
void give_sign(const std::string& name);
bool wait_for_sign(const std::string& name, milliseconds limit = kPatience);

}  // namespace softnpu::test
