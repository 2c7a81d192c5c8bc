// The race check: which bytes a copy, a fill, a free or a task uses. test_races.cpp starts these tests.
#include "testing/races_fixture.h"

namespace softnpu::test {
namespace {

TEST_F(ChildRaces, AHostCopyRacesWithAPendingTask) {
  write(first);
  download(buffer, 64);
  const std::string report = reports();
  EXPECT_EQ(count_of(report, "aclrtMemcpy on the host reads 64 bytes"), 1u) << report;
  EXPECT_EQ(count_of(report, "writer on " + id_of(first)), 1u) << report;
  EXPECT_ACL(aclrtMemset(buffer, 64, 0, 64));
  EXPECT_EQ(count_of(reports(), "aclrtMemset on the host writes"), 1u);
  ASSERT_ACL(aclrtSynchronizeStream(first));
  download(buffer, 64);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, ATaskAfterAHostCopyDoesNotRace) {
  upload(buffer, pattern(64));
  write(first);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, FreeRacesWithAPendingTask) {
  void* const block = make_device_buffer(kBytes).release();
  launch_touch(kReader, first, block, 10);
  ASSERT_ACL(aclrtFree(block));
  const std::string report = reports();
  EXPECT_EQ(count_of(report, "aclrtFree on the host frees 10 bytes"), 1u) << report;
  EXPECT_EQ(count_of(report, "reader on " + id_of(first)), 1u) << report;
}

TEST_F(ChildRaces, NewMemoryDoesNotRaceWithItsFormerUse) {
  for (int round = 0; round < 20; ++round) {
    const DeviceBuffer block = make_device_buffer(kBytes);
    launch_touch(kWriter, round % 2 == 0 ? first : second, block, kBytes);
    ASSERT_ACL(aclrtSynchronizeDevice());
  }
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, NeighbouringBytesDoNotRace) {
  write(first, 0, 100);
  write(second, 100, 100);
  read(first, 200, 1);
  write(second, 201, 1);
  EXPECT_EQ(reports(), "");
  write(first, 199, 1);
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
}

TEST_F(ChildRaces, DifferentColumnsOfAMatrixDoNotRace) {
  const PinnedBuffer host = make_pinned_buffer(kBytes);
  const auto copy_columns = [&](aclrtStream stream, ptrdiff_t column, size_t width) {
    EXPECT_ACL(aclrtMemcpy2dAsync(at(buffer, column), 64, at(host, column), 64, width, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  };
  copy_columns(first, 0, 32);
  copy_columns(second, 32, 32);
  EXPECT_EQ(reports(), "");
  copy_columns(first, 24, 16);
  EXPECT_EQ(count_of(reports(), "writes 8 bytes"), 1u);
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaces, CopiesFillsAndReductionsAreChecked) {
  const DeviceBuffer other = make_device_buffer(kBytes);
  EXPECT_ACL(aclrtMemcpyAsync(other, 100, buffer, 100, ACL_MEMCPY_DEVICE_TO_DEVICE, first));
  EXPECT_ACL(aclrtMemsetAsync(buffer, 100, 0, 100, second));
  EXPECT_TRUE(says(reports(), "aclrtMemcpyAsync on " + id_of(first) + " .task \\d+. reads"));
  EXPECT_ACL(aclrtReduceAsync(other, buffer, 100, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, second, nullptr));
  EXPECT_TRUE(says(reports(), "aclrtReduceAsync on " + id_of(second) + " .task \\d+. writes"));
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaces, PinnedMemoryIsChecked) {
  const PinnedBuffer host = make_pinned_buffer(kBytes);
  EXPECT_ACL(aclrtMemcpyAsync(host, 100, buffer, 100, ACL_MEMCPY_DEVICE_TO_HOST, first));
  EXPECT_ACL(aclrtMemcpyAsync(at(buffer, 200), 100, host, 100, ACL_MEMCPY_HOST_TO_DEVICE, second));
  EXPECT_EQ(count_of(reports(), "host memory"), 1u);
  ASSERT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildRaces, ACopyOfPageableMemoryIsDoneWhenItReturns) {
  Bytes host(kBytes);
  EXPECT_ACL(aclrtMemcpyAsync(buffer, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, first));
  write(second);
  EXPECT_EQ(reports(), "");
}

TEST_F(ChildRaces, ReportsChangeNoResults) {
  const Bytes contents = pattern(kBytes);
  const PinnedBuffer host = pinned_copy_of(contents);
  EXPECT_ACL(aclrtMemcpyAsync(buffer, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, first));
  EXPECT_ACL(aclrtMemcpyAsync(buffer, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, second));
  EXPECT_EQ(count_of(reports(), "\n"), 1u);
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(download(buffer, kBytes), contents);
}

}  // namespace
}  // namespace softnpu::test
