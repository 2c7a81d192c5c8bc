// Copies and fills: one test per sentence of runtime/stream/copy.h and of the facts about aclrtMemcpy and its family.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

using CopyTest = AclFixture;

constexpr size_t kPage = 4096;
constexpr size_t kSizes[] = {1, 7, 64, 4095, 4096, 65537, size_t{5} << 20};
constexpr aclrtMemcpyKind kKinds[] = {ACL_MEMCPY_HOST_TO_HOST,
                                      ACL_MEMCPY_HOST_TO_DEVICE,
                                      ACL_MEMCPY_DEVICE_TO_HOST,
                                      ACL_MEMCPY_DEVICE_TO_DEVICE,
                                      ACL_MEMCPY_DEFAULT,
                                      ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
                                      ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
                                      ACL_MEMCPY_INTER_DEVICE_TO_DEVICE};

// Runs `body` on another thread with the context of this thread.
class Background {
 public:
  explicit Background(std::function<void()> body) {
    aclrtContext context = nullptr;
    EXPECT_ACL(aclrtGetCurrentContext(&context));
    thread_ = std::thread([this, context, body = std::move(body)] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      body();
      done_.set();
    });
  }
  ~Background() { thread_.join(); }

  bool is_done_within(milliseconds span) const { return done_.within(span); }

 private:
  Flag done_;
  std::thread thread_;
};

bool is_idle(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  EXPECT_ACL(aclrtStreamQuery(stream, &status));
  return status == ACL_STREAM_STATUS_COMPLETE;
}

// Synchronous copies

TEST_F(CopyTest, EveryDirectionCopiesTheBytes) {
  for (const size_t bytes : kSizes) {
    const Bytes contents = pattern(bytes);
    const auto copy = [&](void* to, const void* from) { EXPECT_ACL(aclrtMemcpy(to, bytes, from, bytes, ACL_MEMCPY_DEFAULT)); };
    DeviceBuffer first = make_device_buffer(bytes);
    DeviceBuffer second = make_device_buffer(bytes);
    PinnedBuffer pinned = make_pinned_buffer(bytes);
    Bytes pageable(bytes);
    copy(first, contents.data());
    copy(second, first);
    copy(pinned, second);
    EXPECT_EQ(bytes_at(pinned, bytes), contents) << bytes << " bytes";
    copy(pageable.data(), second);
    EXPECT_EQ(pageable, contents) << bytes << " bytes";
    Bytes other(bytes);
    copy(other.data(), pageable.data());
    EXPECT_EQ(other, contents) << bytes << " bytes from host to host";
  }
}

TEST_F(CopyTest, TheAddressesDecideTheDirectionOfASynchronousCopy) {
  const Bytes contents = pattern(300);
  for (const aclrtMemcpyKind kind : kKinds) {
    DeviceBuffer device = make_device_buffer(300);
    Bytes back(300);
    EXPECT_ACL(aclrtMemcpy(device, 300, contents.data(), 300, kind)) << "kind " << kind;
    EXPECT_ACL(aclrtMemcpy(back.data(), 300, device, 300, kind)) << "kind " << kind;
    EXPECT_EQ(back, contents) << "kind " << kind;
  }
}

TEST_F(CopyTest, ASynchronousCopyWaitsForNoStream) {
  Stream stream = make_stream();
  DeviceBuffer device = make_device_buffer(64);
  Gate gate(stream);
  Gate default_gate(nullptr);
  upload(device, pattern(64));
  EXPECT_EQ(download(device, 64), pattern(64));
  EXPECT_FALSE(is_idle(stream));
  EXPECT_FALSE(is_idle(nullptr));
}

TEST_F(CopyTest, PartsOfBlocksAreCopiedExactly) {
  DeviceBuffer device = device_copy_of(Bytes(100, 9));
  const Bytes part = pattern(10);
  EXPECT_ACL(aclrtMemcpy(at(device, 41), 59, part.data(), 10, ACL_MEMCPY_HOST_TO_DEVICE));
  Bytes expected(100, 9);
  std::copy(part.begin(), part.end(), expected.begin() + 41);
  EXPECT_EQ(download(device, 100), expected);
}

TEST_F(CopyTest, TheDestinationMustHaveRoom) {
  DeviceBuffer device = make_device_buffer(128);
  const Bytes host(128);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(device, 127, host.data(), 128, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT_RECENT_ERROR("destMax");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyAsync(device, 0, host.data(), 128, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
}

TEST_F(CopyTest, ZeroBytesAreRefused) {
  DeviceBuffer device = make_device_buffer(64);
  Bytes host(64);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(device, 64, host.data(), 0, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyAsync(device, 64, host.data(), 0, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
}

TEST_F(CopyTest, RangesPastTheEndAreRefusedAndNothingIsWritten) {
  for (const size_t bytes : {size_t{4096}, size_t{1} << 20}) {
    const Bytes before = pattern(bytes, 5);
    DeviceBuffer device = device_copy_of(before);
    Bytes host(2 * bytes + 4096);
    const size_t room = host.size();
    for (const auto& [offset, count] : {std::pair{size_t{0}, bytes + 4096}, {bytes - 1, size_t{4097}}, {size_t{64}, 2 * bytes}}) {
      EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID,
                       aclrtMemcpy(at(device, offset), room, host.data(), count, ACL_MEMCPY_HOST_TO_DEVICE));
      EXPECT_RECENT_ERROR("past the end");
      EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID,
                       aclrtMemcpy(host.data(), room, at(device, offset), count, ACL_MEMCPY_DEVICE_TO_HOST));
      EXPECT_RECENT_ERROR("past the end");
    }
    EXPECT_EQ(download(device, bytes), before);
  }
}

TEST_F(CopyTest, HugeAndOverflowingCountsAreRefused) {
  DeviceBuffer device = make_device_buffer(4096);
  Bytes host(4096);
  PinnedBuffer pinned = make_pinned_buffer(4096);
  for (const size_t count : {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2 + 1, size_t{1} << 48}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(device, SIZE_MAX, host.data(), count, ACL_MEMCPY_HOST_TO_DEVICE));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(host.data(), SIZE_MAX, device, count, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(pinned, SIZE_MAX, host.data(), count, ACL_MEMCPY_HOST_TO_HOST));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(device, SIZE_MAX, 0, count));
  }
}

TEST_F(CopyTest, OverlappingRangesAreRefusedAndNeighboursAreCopied) {
  DeviceBuffer device = make_device_buffer(1000);
  const auto copy = [&](ptrdiff_t to, ptrdiff_t from, size_t count) {
    return aclrtMemcpy(at(device, to), count, at(device, from), count, ACL_MEMCPY_DEVICE_TO_DEVICE);
  };
  for (const auto& [to, from] : {std::pair{0, 0}, {0, 99}, {99, 0}, {500, 450}}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(to, from, 100)) << to << " from " << from;
    EXPECT_RECENT_ERROR("overlap");
  }
  EXPECT_ACL(copy(100, 0, 100));
  EXPECT_ACL(copy(0, 100, 100));

  Bytes host(100);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(host.data(), 50, host.data() + 10, 50, ACL_MEMCPY_HOST_TO_HOST));
}

TEST_F(CopyTest, UnmappedHostAddressesAreRefused) {
  DeviceBuffer device = make_device_buffer(3 * kPage);
  void* const pages = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(at(pages, kPage), kPage);
  void* const garbage[] = {reinterpret_cast<void*>(1), reinterpret_cast<void*>(0xDEADBEEFDEADBEEF),
                           reinterpret_cast<void*>(UINTPTR_MAX - 10), at(pages, kPage), at(pages, kPage - 1)};
  for (void* const pointer : garbage) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(device, 64, pointer, 64, ACL_MEMCPY_HOST_TO_DEVICE)) << pointer;
    EXPECT_RECENT_ERROR("src");
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(pointer, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST)) << pointer;
    EXPECT_RECENT_ERROR("dst");
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyAsync(device, 64, pointer, 64, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
  }
  EXPECT_ACL(aclrtMemcpy(device, kPage, pages, kPage, ACL_MEMCPY_HOST_TO_DEVICE)) << "the page before the unmapped one";
  munmap(pages, kPage);
}

TEST_F(CopyTest, NullAddressesAreRefused) {
  DeviceBuffer device = make_device_buffer(64);
  Bytes host(64);
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtMemcpy(nullptr, 64, host.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtMemcpy(device, 64, nullptr, 64, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtMemset(nullptr, 64, 0, 64));
}

// Asynchronous copies

TEST_F(CopyTest, AnAsynchronousCopyChecksItsKind) {
  DeviceBuffer a = make_device_buffer(64);
  DeviceBuffer b = make_device_buffer(64);
  PinnedBuffer p = make_pinned_buffer(64);
  PinnedBuffer q = make_pinned_buffer(64);
  struct Way {
    const char* name;
    void* to;
    void* from;
    std::vector<aclrtMemcpyKind> right;
  };
  const Way ways[] = {
      {"host to device", a, p, {ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, ACL_MEMCPY_DEFAULT}},
      {"device to host", p, a, {ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEFAULT}},
      {"device to device", b, a, {ACL_MEMCPY_DEVICE_TO_DEVICE, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, ACL_MEMCPY_DEFAULT}},
      {"host to host", p, q, {}},
  };
  for (const Way& way : ways) {
    for (const aclrtMemcpyKind kind : kKinds) {
      const bool is_right = std::find(way.right.begin(), way.right.end(), kind) != way.right.end();
      const bool is_host_to_host = kind == ACL_MEMCPY_HOST_TO_HOST || (kind == ACL_MEMCPY_DEFAULT && way.right.empty());
      const aclError expected = is_right          ? ACL_SUCCESS
                                : is_host_to_host ? ACL_ERROR_RT_FEATURE_NOT_SUPPORT
                                                  : ACL_ERROR_RT_PARAM_INVALID;
      EXPECT_ACL_ERROR(expected, aclrtMemcpyAsync(way.to, 64, way.from, 64, kind, nullptr)) << way.name << ", kind " << kind;
    }
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID,
                     aclrtMemcpyAsync(way.to, 64, way.from, 64, static_cast<aclrtMemcpyKind>(99), nullptr));
  }
  ASSERT_ACL(aclrtSynchronizeStream(nullptr));
}

TEST_F(CopyTest, WithPinnedMemoryTheCallReturnsBeforeTheCopy) {
  Stream stream = make_stream();
  const Bytes contents = pattern(1000);
  PinnedBuffer source = pinned_copy_of(contents);
  PinnedBuffer destination = make_pinned_buffer(1000);
  DeviceBuffer first = device_copy_of(Bytes(1000, 1));
  DeviceBuffer second = make_device_buffer(1000);
  Gate gate(stream);
  ASSERT_ACL(aclrtMemcpyAsync(first, 1000, source, 1000, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  ASSERT_ACL(aclrtMemcpyAsync(second, 1000, first, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  ASSERT_ACL(aclrtMemcpyAsync(destination, 1000, second, 1000, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  EXPECT_EQ(download(first, 1000), Bytes(1000, 1)) << "the copy ran before earlier tasks";
  EXPECT_EQ(bytes_at(destination, 1000), Bytes(1000, 0));
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(bytes_at(destination, 1000), contents);
}

TEST_F(CopyTest, WithPageableMemoryTheCallReturnsAfterTheCopy) {
  Stream stream = make_stream();
  DeviceBuffer device = make_device_buffer(5000);
  const Bytes contents = pattern(5000);
  Bytes source = contents;
  ASSERT_ACL(aclrtMemcpyAsync(device, 5000, source.data(), 5000, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  std::fill(source.begin(), source.end(), 0);
  Bytes back(5000);
  ASSERT_ACL(aclrtMemcpyAsync(back.data(), 5000, device, 5000, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  EXPECT_EQ(back, contents);
}

TEST_F(CopyTest, APageableCopyKeepsTheOrderOfItsStream) {
  Stream stream = make_stream();
  DeviceBuffer device = device_copy_of(Bytes(100, 1));
  Bytes back(100);
  Gate gate(stream);
  ASSERT_ACL(aclrtMemsetAsync(device, 100, 2, 100, stream));
  Background copy([&] { EXPECT_ACL(aclrtMemcpyAsync(back.data(), 100, device, 100, ACL_MEMCPY_DEVICE_TO_HOST, stream)); });
  EXPECT_FALSE(copy.is_done_within(50ms)) << "the copy did not wait for earlier tasks";
  gate.open();
  ASSERT_TRUE(copy.is_done_within(kPatience));
  EXPECT_EQ(back, Bytes(100, 2));
}

TEST_F(CopyTest, StagedCopyHasReadItsSourceWhenItReturns) {
  const Bytes contents = pattern(3000);
  Stream stream = make_stream();
  DeviceBuffer from_pageable = make_device_buffer(3000);
  DeviceBuffer from_pinned = make_device_buffer(3000);
  Bytes pageable = contents;
  PinnedBuffer pinned = pinned_copy_of(contents);
  Gate gate(stream);
  ASSERT_ACL(aclrtMemcpyAsync(from_pageable, 3000, pageable.data(), 3000, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
  ASSERT_ACL(aclrtMemcpyAsync(from_pinned, 3000, pinned, 3000, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
  EXPECT_FALSE(is_idle(stream)) << "the copy waited for the stream";
  std::fill(pageable.begin(), pageable.end(), 0);
  std::memset(pinned, 0, 3000);
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(download(from_pageable, 3000), contents);
  EXPECT_EQ(download(from_pinned, 3000), contents);
}

TEST_F(CopyTest, ConditionalCopyIsTheSameCopy) {
  DeviceBuffer device = make_device_buffer(200);
  const Bytes contents = pattern(200);
  Bytes back(200);
  EXPECT_ACL(aclrtMemcpyAsyncWithCondition(device, 200, contents.data(), 200, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
  EXPECT_ACL(aclrtMemcpyAsyncWithCondition(back.data(), 200, device, 200, ACL_MEMCPY_DEVICE_TO_HOST, nullptr));
  EXPECT_EQ(back, contents);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   aclrtMemcpyAsyncWithCondition(back.data(), 200, contents.data(), 200, ACL_MEMCPY_HOST_TO_HOST, nullptr));
}

TEST_F(CopyTest, LargeCopiesRunInOrderWithSmallOnes) {
  constexpr size_t kLarge = size_t{8} << 20;
  Stream stream = make_stream();
  PinnedBuffer source = pinned_copy_of(pattern(kLarge));
  PinnedBuffer back = make_pinned_buffer(kLarge);
  DeviceBuffer device = make_device_buffer(kLarge);
  ASSERT_ACL(aclrtMemcpyAsync(device, kLarge, source, kLarge, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  ASSERT_ACL(aclrtMemsetAsync(at(device, 5), 1, 77, 1, stream));
  ASSERT_ACL(aclrtMemcpyAsync(back, kLarge, device, kLarge, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  Bytes expected = pattern(kLarge);
  expected[5] = 77;
  EXPECT_TRUE(bytes_at(back, kLarge) == expected);
}

TEST_F(CopyTest, BadStreamsAreRefused) {
  DeviceBuffer device = make_device_buffer(64);
  PinnedBuffer pinned = make_pinned_buffer(64);
  void* const destroyed = make_stream().release();
  ASSERT_ACL(aclrtDestroyStream(destroyed));
  Event event = make_event();
  for (void* const stream : {destroyed, event.get(), reinterpret_cast<void*>(0x1234)}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemcpyAsync(device, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemsetAsync(device, 64, 0, 64, stream));
  }
}

// More than one device

class PeerCopyTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    uint32_t count = 0;
    ASSERT_ACL(aclrtGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "needs two devices";
    ASSERT_ACL(aclrtSetDevice(1));
    there_ = device_copy_of(pattern(1000));
    ASSERT_ACL(aclrtSetDevice(0));
    here_ = make_device_buffer(1000);
  }
  void TearDown() override {
    here_ = DeviceBuffer();
    there_ = DeviceBuffer();
    if (!IsSkipped()) {
      EXPECT_ACL(aclrtResetDevice(1));
      EXPECT_ACL(aclrtResetDevice(0));
    }
    AclFixture::TearDown();
  }

  DeviceBuffer here_;
  DeviceBuffer there_;
};

TEST_F(PeerCopyTest, MemoryOfTwoDevicesIsCopiedBothWays) {
  EXPECT_ACL(aclrtMemcpy(here_, 1000, there_, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE));
  EXPECT_EQ(download(here_, 1000), pattern(1000));
  EXPECT_ACL(aclrtMemset(here_, 1000, 4, 1000));
  EXPECT_ACL(aclrtMemcpy(there_, 1000, here_, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE));
  EXPECT_EQ(download(there_, 1000), Bytes(1000, 4));
}

TEST_F(PeerCopyTest, AsynchronousCopyMayNameItsDirection) {
  const auto copy = [&](aclrtMemcpyKind kind) { return aclrtMemcpyAsync(here_, 1000, there_, 1000, kind, nullptr); };
  EXPECT_ACL(copy(ACL_MEMCPY_DEVICE_TO_DEVICE));
  EXPECT_ACL(copy(ACL_MEMCPY_INTER_DEVICE_TO_DEVICE));
  EXPECT_ACL(copy(ACL_MEMCPY_DEFAULT));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, copy(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE));
  EXPECT_ACL(aclrtSynchronizeStream(nullptr));
  EXPECT_EQ(download(here_, 1000), pattern(1000));
}

// Pages that were used before are not checked again. A size that wraps around the address space must still be refused.
TEST_F(CopyTest, SizesThatWrapAroundAreRefusedOnPagesUsedBefore) {
  std::vector<std::byte> host(1 << 16);
  DeviceBuffer device = make_device_buffer(64);
  std::byte* const to = host.data() + 100;
  std::byte* const from = host.data() + 9000;
  for (std::byte* page : {to, from}) ASSERT_ACL(aclrtMemcpy(page, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 49, SIZE_MAX - 98, SIZE_MAX - 4095, SIZE_MAX / 2 + 1}) {
    EXPECT_REFUSED(aclrtMemcpy(to, bytes, from, bytes, ACL_MEMCPY_HOST_TO_HOST));
    EXPECT_REFUSED(aclrtMemcpy(to, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT_REFUSED(aclrtMemcpy(device, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    EXPECT_REFUSED(aclrtMemset(to, bytes, 1, bytes));
    EXPECT_REFUSED(aclrtHostRegisterV2(to, bytes, 0));
  }
}

}  // namespace
}  // namespace softnpu::test
