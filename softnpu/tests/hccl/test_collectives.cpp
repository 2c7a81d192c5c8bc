// Every collective, data type, operation and size is compared with the model, on 2 to 8 ranks and over each transport. Then
// random sequences of calls are.
#include <cstdlib>
#include <memory>

#include "hccl/random_call.h"

namespace softnpu::test {
namespace {

class ChildCollectives : public RankTest {
 protected:
  void run(const CallCase& call_case) {
    RunningCall call(call_case, comm(), stream(), rank(), size());
    call.check();
  }
};

constexpr Call kAll[] = {Call::kAllReduce,  Call::kBroadcast, Call::kReduceScatter, Call::kReduceScatterV, Call::kAllGather,
                         Call::kAllGatherV, Call::kReduce,    Call::kScatter,       Call::kAllToAll,       Call::kAllToAllV,
                         Call::kAllToAllVC, Call::kSendRecv,  Call::kBatch,         Call::kBarrier};

bool reduces(Call call) {
  return call == Call::kAllReduce || call == Call::kReduceScatter || call == Call::kReduceScatterV || call == Call::kReduce;
}

TEST_F(ChildCollectives, EveryTypeAndOperation) {
  uint32_t seed = 0;
  for (const Call call : kAll) {
    for (const DataType& type : kDataTypes) {
      if (reduces(call) && !type.can_be_reduced) continue;
      for (int op = 0; op < (reduces(call) ? 4 : 1); ++op) {
        for (const size_t count : {size_t{1}, size_t{37}, size_t{3001}}) {
          ++seed;
          run({call, type, HcclReduceOp(op), count, seed % size(), seed % 2 == 0, seed});
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(ChildCollectives, EverySize) {
  uint32_t seed = 1000;
  for (const Call call : kAll) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{63}, size_t{4096}, size_t{20'001}, size_t{200'003}}) {
      for (const bool in_place : {false, true}) {
        ++seed;
        run({call, kDataTypes[seed % 2 == 0 ? 4 : 3], HCCL_REDUCE_SUM, count, seed % size(), in_place, seed});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(ChildCollectives, Smoke) {
  uint32_t seed = 2000;
  for (const Call call : kAll) {
    for (const size_t count : {size_t{5}, size_t{70'001}}) {
      ++seed;
      run({call, kDataTypes[4], HCCL_REDUCE_SUM, count, seed % size(), false, seed});
    }
  }
}

// Sizes from which the data between hosts takes another way, and types whose partial results are wider than their values.
TEST_F(ChildCollectives, AcrossHosts) {
  uint32_t seed = 3000;
  for (const Call call : kAll) {
    for (const int type : {3, 4, 11}) {  // float16, float32, bfloat16
      if (type != 4 && !reduces(call)) continue;
      for (const bool in_place : {false, true}) {
        ++seed;
        run({call, kDataTypes[type], HCCL_REDUCE_SUM, 140'001, seed % size(), in_place, seed});
        if (HasFailure()) return;
      }
    }
  }
}

// Many calls at once on one stream, checked afterwards. All ranks draw the same numbers.
TEST_F(ChildCollectives, RandomSequences) {
  const char* const given = std::getenv("HCCL_TEST_SEED");
  std::minstd_rand random(given == nullptr ? 12345 : std::atoi(given));
  for (int round = 0; round < 12; ++round) {
    std::vector<std::unique_ptr<RunningCall>> calls;
    for (int number = 0; number < 12; ++number) {
      constexpr size_t kSizes[] = {0, 1, 3, 64, 1000, 4097, 30'000, 150'000};
      CallCase next;
      next.call = kAll[random() % std::size(kAll)];
      next.type = kDataTypes[random() % (reduces(next.call) ? 12 : std::size(kDataTypes))];
      next.op = HcclReduceOp(random() % 4);
      next.count = kSizes[random() % std::size(kSizes)];
      next.root = uint32_t(random() % size());
      next.in_place = random() % 2 == 0;
      next.seed = uint32_t(random());
      calls.push_back(std::make_unique<RunningCall>(next, comm(), stream(), rank(), size()));
    }
    for (const auto& call : calls) call->check();
    if (HasFailure()) return;
  }
}

using Settings = std::vector<Environment>;
const Settings kAuto = {{}};
const Settings kStaged = {{"SOFTNPU_HCCL_TRANSPORT=staged"}};
const Settings kTcp = {{"SOFTNPU_HCCL_TRANSPORT=tcp", "HCCL_IF_IP=127.0.0.1"}};

TEST(Collectives, OfTwoRanks) { EXPECT_WORLD_PASSES(2, "ChildCollectives.Every*", kAuto); }
TEST(Collectives, OfThreeRanks) { EXPECT_WORLD_PASSES(3, "ChildCollectives.EverySize", kAuto); }
TEST(Collectives, OfFourRanks) { EXPECT_WORLD_PASSES(4, "ChildCollectives.EverySize", kAuto); }
TEST(Collectives, OfEightRanks) { EXPECT_WORLD_PASSES(8, "ChildCollectives.Smoke", kAuto); }
TEST(Collectives, OfOneRank) { EXPECT_WORLD_PASSES(1, "ChildCollectives.*", kAuto); }
TEST(Collectives, StagedThroughSharedMemory) { EXPECT_WORLD_PASSES(3, "ChildCollectives.EverySize", kStaged); }
TEST(Collectives, OverTcp) { EXPECT_WORLD_PASSES(2, "ChildCollectives.Every*", kTcp); }
TEST(Collectives, OfThreeRanksOverTcp) { EXPECT_WORLD_PASSES(3, "ChildCollectives.EverySize", kTcp); }
TEST(Collectives, OverTcpOfIpv6) {
  EXPECT_WORLD_PASSES(2, "ChildCollectives.Smoke", {{"SOFTNPU_HCCL_TRANSPORT=tcp", "HCCL_IF_IP=::1"}});
}
TEST(Collectives, OfFiveRanksOverTcp) { EXPECT_WORLD_PASSES(5, "ChildCollectives.Smoke:*.AcrossHosts", kTcp); }

// Ranks with the same letter share memory; TCP is between the others.
Settings hosts(const std::string& letters) {
  Settings settings;
  for (const char letter : letters) settings.push_back({std::string("SOFTNPU_HCCL_HOST=") + letter, "HCCL_IF_IP=127.0.0.1"});
  return settings;
}

class Hosts : public ::testing::TestWithParam<const char*> {};
TEST_P(Hosts, HaveTheResultsOfTheModel) {
  const std::string letters = GetParam();
  EXPECT_WORLD_PASSES(uint32_t(letters.size()), "ChildCollectives.Smoke:*.AcrossHosts", hosts(letters));
}
INSTANTIATE_TEST_SUITE_P(, Hosts, ::testing::Values("aabb", "abab", "aba", "aaabc"), [](const auto& info) { return info.param; });

TEST(Collectives, InRandomSequences) {
  EXPECT_WORLD_PASSES(3, "ChildCollectives.RandomSequences", hosts("aba"));
  EXPECT_WORLD_PASSES(2, "ChildCollectives.RandomSequences", kAuto);
  EXPECT_WORLD_PASSES(3, "ChildCollectives.RandomSequences", {{"HCCL_TEST_SEED=7"}});
  EXPECT_WORLD_PASSES(2, "ChildCollectives.RandomSequences", {{"HCCL_TEST_SEED=8", "SOFTNPU_HCCL_TRANSPORT=tcp"}});
  EXPECT_WORLD_PASSES(3, "ChildCollectives.RandomSequences", {{"HCCL_TEST_SEED=9", "SOFTNPU_HCCL_TRANSPORT=staged"}});
}

}  // namespace
}  // namespace softnpu::test
