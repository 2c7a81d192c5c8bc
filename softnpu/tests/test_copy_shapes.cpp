// Copies of rows, and batches of copies.
#include <algorithm>
#include <cstring>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

using CopyShapesTest = AclFixture;

// Rows

struct Rows {
  size_t pitch;
  size_t width;
  size_t height;
};

// `to` after the rows of `from` are copied into it.
Bytes with_rows(Bytes to, size_t to_pitch, const Bytes& from, const Rows& rows) {
  for (size_t row = 0; row < rows.height; ++row) {
    const auto begin = from.begin() + static_cast<ptrdiff_t>(row * rows.pitch);
    std::copy(begin, begin + static_cast<ptrdiff_t>(rows.width), to.begin() + static_cast<ptrdiff_t>(row * to_pitch));
  }
  return to;
}

TEST_F(CopyShapesTest, RowsAreCopiedInEveryDirection) {
  constexpr Rows kRows = {.pitch = 100, .width = 37, .height = 9};
  constexpr size_t kToPitch = 64;
  constexpr size_t kFromBytes = 8 * 100 + 37;  // the last row is shorter than the pitch
  constexpr size_t kToBytes = 8 * 64 + 37;
  const Bytes contents = pattern(kFromBytes);
  const Bytes expected = with_rows(Bytes(kToBytes, 1), kToPitch, contents, kRows);
  const auto copy = [&](void* to, const void* from, aclrtMemcpyKind kind, bool is_async) {
    if (!is_async) return aclrtMemcpy2d(to, kToPitch, from, kRows.pitch, kRows.width, kRows.height, kind);
    const aclError code = aclrtMemcpy2dAsync(to, kToPitch, from, kRows.pitch, kRows.width, kRows.height, kind, nullptr);
    EXPECT_ACL(aclrtSynchronizeStream(nullptr));
    return code;
  };
  for (const bool is_async : {false, true}) {
    DeviceBuffer source = device_copy_of(contents);
    DeviceBuffer uploaded = device_copy_of(Bytes(kToBytes, 1));
    DeviceBuffer moved = device_copy_of(Bytes(kToBytes, 1));
    Bytes downloaded(kToBytes, 1);
    EXPECT_ACL(copy(uploaded, contents.data(), ACL_MEMCPY_HOST_TO_DEVICE, is_async));
    EXPECT_EQ(download(uploaded, kToBytes), expected) << "host to device, async " << is_async;
    EXPECT_ACL(copy(downloaded.data(), source, ACL_MEMCPY_DEVICE_TO_HOST, is_async));
    EXPECT_EQ(downloaded, expected) << "device to host, async " << is_async;
    EXPECT_ACL(copy(moved, source, ACL_MEMCPY_DEVICE_TO_DEVICE, is_async));
    EXPECT_EQ(download(moved, kToBytes), expected) << "device to device, async " << is_async;
  }
}

TEST_F(CopyShapesTest, ImpossibleRowsAreRefused) {
  DeviceBuffer device = make_device_buffer(1000);
  Bytes host(1000);
  const auto copy = [&](size_t to_pitch, size_t from_pitch, size_t width, size_t height) {
    return aclrtMemcpy2d(device, to_pitch, host.data(), from_pitch, width, height, ACL_MEMCPY_HOST_TO_DEVICE);
  };
  EXPECT_ACL(copy(100, 100, 100, 10));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(100, 100, 0, 10));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(100, 100, 100, 0));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(99, 100, 100, 10));
  EXPECT_RECENT_ERROR("pitch");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(100, 99, 100, 10));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(101, 100, 100, 50));
  EXPECT_RECENT_ERROR("past the end");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(SIZE_MAX / 2, 100, 100, 3));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(100, SIZE_MAX / 2, 100, 3));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(100, 100, 100, SIZE_MAX));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   aclrtMemcpy2dAsync(host.data(), 10, host.data() + 500, 10, 10, 10, ACL_MEMCPY_HOST_TO_HOST, nullptr));
}

TEST_F(CopyShapesTest, NeighbouringColumnsOfOneMatrixMayBeCopiedButNotOverlappingOnes) {
  DeviceBuffer device = device_copy_of(pattern(1000));
  const auto copy = [&](ptrdiff_t to, size_t width) {
    return aclrtMemcpy2d(at(device, to), 100, device, 100, width, 9, ACL_MEMCPY_DEVICE_TO_DEVICE);
  };
  EXPECT_ACL(copy(50, 50));
  const Bytes after = download(device, 1000);
  for (size_t row = 0; row < 9; ++row) {
    EXPECT_TRUE(std::equal(after.begin() + static_cast<ptrdiff_t>(row * 100),
                           after.begin() + static_cast<ptrdiff_t>(row * 100 + 50),
                           after.begin() + static_cast<ptrdiff_t>(row * 100 + 50)));
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(50, 51));
  EXPECT_RECENT_ERROR("overlap");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(100, 50)) << "row 1 of the source is row 0 of the destination";
}

// Batches

struct Batch {
  std::vector<void*> to;
  std::vector<void*> from;
  std::vector<size_t> room;
  std::vector<size_t> bytes;
  std::vector<aclrtMemcpyBatchAttr> attributes;
  std::vector<size_t> indexes;
  size_t failed = 12345;

  void add(void* destination, const void* source, size_t count) {
    to.push_back(destination);
    from.push_back(const_cast<void*>(source));
    room.push_back(count);
    bytes.push_back(count);
  }
  void describe(aclrtMemLocation destination, aclrtMemLocation source, size_t first) {
    aclrtMemcpyBatchAttr attribute = {};
    attribute.dstLoc = destination;
    attribute.srcLoc = source;
    attributes.push_back(attribute);
    indexes.push_back(first);
  }
  aclError run() {
    return aclrtMemcpyBatch(to.data(), room.data(), from.data(), bytes.data(), to.size(), attributes.data(), indexes.data(),
                            attributes.size(), &failed);
  }
  aclError run_async(aclrtStream stream) {
    return aclrtMemcpyBatchAsync(to.data(), room.data(), from.data(), bytes.data(), to.size(), attributes.data(), indexes.data(),
                                 attributes.size(), &failed, stream);
  }
};

constexpr aclrtMemLocation kHost = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_HOST};
constexpr aclrtMemLocation kDevice = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE};

TEST_F(CopyShapesTest, BatchCopiesAllItsItems) {
  for (const bool is_async : {false, true}) {
    DeviceBuffer device = make_device_buffer(300);
    PinnedBuffer pinned = pinned_copy_of(pattern(300));
    Batch up;
    for (const ptrdiff_t offset : {0, 100, 200}) up.add(at(device, offset), at(pinned, offset), 100);
    up.describe(kDevice, kHost, 0);
    up.describe(kDevice, kHost, 2);
    EXPECT_ACL(is_async ? up.run_async(nullptr) : up.run());
    EXPECT_ACL(aclrtSynchronizeStream(nullptr));
    EXPECT_EQ(download(device, 300), pattern(300));

    Bytes back(300);
    Batch down;
    for (const ptrdiff_t offset : {0, 100, 200}) down.add(back.data() + offset, at(device, offset), 100);
    down.describe(kHost, kDevice, 0);
    EXPECT_ACL(is_async ? down.run_async(nullptr) : down.run());
    EXPECT_EQ(back, pattern(300)) << "pageable memory: done when the call returns";
  }
}

TEST_F(CopyShapesTest, BadItemIsNamedAndNothingIsCopied) {
  DeviceBuffer device = device_copy_of(Bytes(300, 1));
  const Bytes host = pattern(300);
  const auto make = [&] {
    Batch batch;
    for (const ptrdiff_t offset : {0, 100, 200}) batch.add(at(device, offset), host.data() + offset, 100);
    batch.describe(kDevice, kHost, 0);
    return batch;
  };
  struct Damage {
    const char* what;
    std::function<void(Batch&)> apply;
    size_t failed;
  };
  const Damage damages[] = {
      {"too little room", [](Batch& b) { b.room[1] = 99; }, 1},
      {"past the end", [](Batch& b) { b.room[2] = b.bytes[2] = 5000; }, 2},
      {"null address", [](Batch& b) { b.from[0] = nullptr; }, 0},
      {"no bytes", [](Batch& b) { b.bytes[1] = 0; }, 1},
      {"another direction", [](Batch& b) { std::swap(b.to[2], b.from[2]); }, 2},
      {"a wrong location", [](Batch& b) { b.attributes[0].srcLoc = kDevice; }, 0},
      {"a wrong device", [](Batch& b) { b.attributes[0].dstLoc.id = 5; }, 0},
      {"attributes that do not start with item 0", [](Batch& b) { b.indexes[0] = 1; }, SIZE_MAX},
      {"attributes that do not rise", [](Batch& b) { b.describe(kDevice, kHost, 0); }, SIZE_MAX},
      {"attributes for no item", [](Batch& b) { b.describe(kDevice, kHost, 3); }, SIZE_MAX},
  };
  for (const Damage& damage : damages) {
    Batch batch = make();
    damage.apply(batch);
    EXPECT_NE(batch.run(), ACL_SUCCESS) << damage.what;
    EXPECT_NE(recent_error(), "") << damage.what;
    EXPECT_EQ(batch.failed, damage.failed) << damage.what;
    batch.failed = 12345;
    EXPECT_NE(batch.run_async(nullptr), ACL_SUCCESS) << damage.what;
    EXPECT_EQ(batch.failed, damage.failed) << damage.what;
  }
  EXPECT_ACL(aclrtSynchronizeStream(nullptr));
  EXPECT_EQ(download(device, 300), Bytes(300, 1));
}

TEST_F(CopyShapesTest, BatchesWithoutItemsOrAttributesAreRefused) {
  Batch empty;
  DeviceBuffer device = make_device_buffer(64);
  const Bytes host(64);
  empty.add(device, host.data(), 64);
  empty.describe(kDevice, kHost, 0);
  size_t failed = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID,
                   aclrtMemcpyBatch(empty.to.data(), empty.room.data(), empty.from.data(), empty.bytes.data(), 0,
                                    empty.attributes.data(), empty.indexes.data(), 1, &failed));
  EXPECT_EQ(failed, SIZE_MAX);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID,
                   aclrtMemcpyBatch(empty.to.data(), empty.room.data(), empty.from.data(), empty.bytes.data(), 1,
                                    empty.attributes.data(), empty.indexes.data(), 0, nullptr));
}

}  // namespace
}  // namespace softnpu::test
