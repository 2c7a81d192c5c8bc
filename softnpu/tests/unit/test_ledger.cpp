// The busy time of the ledger. softnpu/tests/test_ledger.cpp tests the rest through the C ABI.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/memory/ledger.h"
#include "testing/temp_dir.h"

namespace softnpu {
namespace {

TEST(BusyTime, IsTheSumOverStreams) {
  const test::TempDir folder;
  Ledger ledger(folder.path().string());
  const BusyTime before = ledger.busy_time(1);
  EXPECT_EQ(before.total.count(), 0);
  ledger.running(1, true);
  ledger.running(1, true);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const BusyTime during = ledger.busy_time(1);
  EXPECT_GE(during.total, std::chrono::milliseconds(10));
  ledger.running(1, false);
  ledger.running(1, false);
  const BusyTime after = ledger.busy_time(1);
  EXPECT_GE(after.total, during.total);
  EXPECT_LE(after.total, 2 * (after.now - before.now));
  EXPECT_EQ(ledger.busy_time(1).total, after.total) << "the busy time grew while nothing ran";
  EXPECT_EQ(ledger.busy_time(0).total.count(), 0) << "the time of another device was added";
}

TEST(BusyTime, IsReadConsistently) {
  const test::TempDir folder;
  Ledger ledger(folder.path().string());
  const BusyTime before = ledger.busy_time(0);
  const std::jthread stream([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      ledger.running(0, true);
      ledger.running(0, false);
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const BusyTime busy = ledger.busy_time(0);
    const auto slack = std::chrono::seconds(1);
    ASSERT_GE(busy.total, -slack);
    ASSERT_LE(busy.total, busy.now - before.now + slack);
  }
}

}  // namespace
}  // namespace softnpu
