#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/stream/task_times.h"

namespace softnpu {
namespace {

using std::chrono::nanoseconds;

SoftnpuTaskKind some_kind() {
  return {.name = "some", .run = nullptr, .release = nullptr, .ready = nullptr, .flags = 0, .visit = nullptr};
}

TEST(TaskTimes, AreUnknownUntilATaskOfThatKindAndSizeHasRun) {
  static const SoftnpuTaskKind first = some_kind(), second = some_kind();
  TaskTimes::note(first, 1000, nanoseconds(5000));
  EXPECT_GE(TaskTimes::expected(first, 1000), nanoseconds(5000));
  EXPECT_EQ(TaskTimes::expected(first, 1000 * 1000), TaskTimes::kUnknown) << "the time of a small task was used for a large one";
  EXPECT_EQ(TaskTimes::expected(second, 1000), TaskTimes::kUnknown);
}

TEST(TaskTimes, FollowTheNewestTasks) {
  static const SoftnpuTaskKind kind = some_kind();
  TaskTimes::note(kind, 1000, nanoseconds(1'000'000));  // as if the task had been interrupted
  for (int count = 0; count < 20; ++count) TaskTimes::note(kind, 1000, nanoseconds(1000));
  EXPECT_LT(TaskTimes::expected(kind, 1000), nanoseconds(1100));
}

TEST(TaskTimes, AreUnknownWhenTheTableIsFull) {
  static auto* const kinds = new std::vector<SoftnpuTaskKind>(20'000, some_kind());
  size_t known = 0;
  for (const SoftnpuTaskKind& kind : *kinds) {
    TaskTimes::note(kind, 1, nanoseconds(1));
    known += TaskTimes::expected(kind, 1) != TaskTimes::kUnknown;
  }
  EXPECT_GT(known, 1000u);
  EXPECT_LT(known, kinds->size());
}

}  // namespace
}  // namespace softnpu
