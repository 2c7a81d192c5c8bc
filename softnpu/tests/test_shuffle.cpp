// SOFTNPU_LAUNCH=shuffle (runtime/stream/shuffle.h), in child processes.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <set>
#include <thread>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

constexpr int kStreams = 3;
constexpr int kTasks = 20;

class ChildShuffle : public AclFixture {
 protected:
  // Each task appends the number of its stream when it runs.
  void note(aclrtStream stream, int number) {
    ASSERT_ACL(launch(stream,
                      {.run = [this, number](char*) { return order.push_back(number), ACL_SUCCESS; }, .cost = Task::kSmallCost}));
  }
  std::vector<int> order;
};

TEST_F(ChildShuffle, PrintsTheOrderOfItsTasks) {
  std::vector<Stream> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(make_stream());
  for (int task = 0; task < kTasks; ++task) {
    for (int i = 0; i < kStreams; ++i) note(streams[size_t(i)], i);
  }
  EXPECT_TRUE(order.empty()) << "a task ran before a call waited";
  ASSERT_ACL(aclrtSynchronizeDevice());
  ASSERT_EQ(order.size(), size_t(kStreams * kTasks));
  std::string text = "order=";
  for (const int number : order) text += char('0' + number);
  std::puts(text.c_str());
}

TEST_F(ChildShuffle, KeepsTheOrderOfStreamsAndEvents) {
  std::vector<int> expected;
  Stream streams[] = {make_stream(), make_stream()};
  for (int round = 0; round < 100; ++round) {
    const Event event = make_event();
    note(streams[round % 2], 2 * round);
    note(streams[round % 2], 2 * round + 1);
    ASSERT_ACL(aclrtRecordEvent(event, streams[round % 2]));
    ASSERT_ACL(aclrtStreamWaitEvent(streams[(round + 1) % 2], event));
    expected.insert(expected.end(), {2 * round, 2 * round + 1});
  }
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(order, expected);
}

TEST_F(ChildShuffle, WaitRunsOnlyTheTasksThatItNeeds) {
  Stream one = make_stream();
  Stream other = make_stream();
  note(one, 1);
  for (int i = 0; i < 500; ++i) note(other, 2);
  ASSERT_ACL(aclrtSynchronizeStream(one));
  EXPECT_EQ(std::count(order.begin(), order.end(), 1), 1);
  EXPECT_LT(order.size(), 501u) << "the wait ran all tasks";
  ASSERT_ACL(aclrtSynchronizeStream(other));
  EXPECT_EQ(order.size(), 501u);
}

TEST_F(ChildShuffle, QueryRunsATask) {
  Stream stream = make_stream();
  for (int i = 0; i < 10; ++i) note(stream, 0);
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  int queries = 0;
  for (; status != ACL_STREAM_STATUS_COMPLETE && queries < 100; ++queries) ASSERT_ACL(aclrtStreamQuery(stream, &status));
  EXPECT_EQ(queries, 10) << "a query did not run one task";
  EXPECT_EQ(order.size(), 10u);
}

TEST_F(ChildShuffle, FullStreamRunsTasks) {
  Stream stream = make_stream();
  for (int i = 0; i < 5000; ++i) note(stream, 0);
  EXPECT_GE(order.size(), 5000u - 1024);
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(order.size(), 5000u);
}

TEST_F(ChildShuffle, WaitWithALimitRunsTasks) {
  Stream stream = make_stream();
  note(stream, 0);
  EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
}

TEST_F(ChildShuffle, ProgramThatNeverWaitsRunsTasks) {
  Stream stream = make_stream();
  std::atomic<bool> ran = false;
  ASSERT_ACL(launch(stream, {.run = [&](char*) { return ran = true, ACL_SUCCESS; }}));
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
}

TEST_F(ChildShuffle, CallbacksRunOnTheirOwnThread) {
  Stream stream = make_stream();
  Stream other = make_stream();
  note(stream, 0);
  Gate gate(stream);
  note(stream, 1);
  note(other, 2);
  ASSERT_ACL(aclrtSynchronizeStream(other));
  std::thread::id thread;
  gate.open();
  ASSERT_ACL(run_on(stream, [&] { thread = std::this_thread::get_id(); }));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(order.size(), 3u);
}

TEST_F(ChildShuffle, StreamsAreDestroyedWithPendingTasks) {
  for (int round = 0; round < 50; ++round) {
    Stream stream = make_stream();
    ASSERT_ACL(launch(stream, {.run = [](char*) { return ACL_SUCCESS; }}));
    if (round % 2 == 0) continue;
    ASSERT_ACL(aclrtDestroyStreamForce(stream.release()));
  }
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; }));
}

class ShuffleTest : public ::testing::Test {
 protected:
  void SetUp() override { REQUIRE_SOFTNPU(); }

  static std::vector<std::string> seeded(int seed) {
    return {"SOFTNPU_LAUNCH=shuffle", "SOFTNPU_SHUFFLE_SEED=" + std::to_string(seed)};
  }
  static std::string order_of(int seed) {
    const Child child = run_child("ChildShuffle.PrintsTheOrderOfItsTasks", seeded(seed));
    EXPECT_TRUE(child.passed()) << child.output;
    const size_t begin = std::min(child.output.find("order="), child.output.size());
    return child.output.substr(begin, child.output.find('\n', begin) - begin);
  }
};

TEST_F(ShuffleTest, SeedDecidesTheOrder) {
  std::set<std::string> orders;
  for (int seed = 0; seed < 4; ++seed) {
    const std::string order = order_of(seed);
    EXPECT_EQ(order_of(seed), order) << "seed " << seed;
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST_F(ShuffleTest, KeepsTheOrderOfStreams) {
  for (int seed = 0; seed < 3; ++seed) EXPECT_CHILD_PASSES("ChildShuffle.*", seeded(seed));
}

TEST_F(ShuffleTest, EventsAndStreamsWorkInThisMode) { EXPECT_CHILD_PASSES("EventTest.*:StreamTest.*", seeded(1)); }

}  // namespace
}  // namespace softnpu::test
