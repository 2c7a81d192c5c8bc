// Device memory: one test per sentence of runtime/memory/heap.h and of the facts about aclrtMalloc and aclrtFree.
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include "testing/buffers.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

using MemoryTest = AclFixture;

constexpr aclrtMemMallocPolicy kPolicy = ACL_MEM_MALLOC_HUGE_FIRST;
constexpr size_t kMiB = size_t{1} << 20;

aclError malloc_without_config(void** block, size_t bytes, aclrtMemMallocPolicy policy) {
  return aclrtMallocWithCfg(block, bytes, policy, nullptr);
}
constexpr decltype(&aclrtMalloc) kAllocators[] = {aclrtMalloc, aclrtMallocAlign32, aclrtMallocCached, malloc_without_config};

TEST_F(MemoryTest, EveryAllocatorReturnsAlignedBlocksThatDoNotOverlap) {
  for (const auto allocate : kAllocators) {
    std::map<uintptr_t, size_t> blocks;
    for (const size_t bytes : {size_t{1}, size_t{31}, size_t{512}, size_t{513}, size_t{32768}, size_t{32769}, 3 * kMiB}) {
      void* block = nullptr;
      ASSERT_ACL(allocate(&block, bytes, kPolicy));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes << " bytes at " << block;
      blocks.emplace(reinterpret_cast<uintptr_t>(block), bytes);
    }
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      const auto next = std::next(block);
      if (next != blocks.end()) {
        EXPECT_LE(block->first + block->second, next->first) << "blocks overlap";
      }
      EXPECT_ACL(aclrtFree(reinterpret_cast<void*>(block->first)));
    }
  }
}

TEST_F(MemoryTest, EveryPolicyIsAccepted) {
  for (const int policy : {0, 1, 2, 3, 4, 5, 6, 7, 256, 4096, 0x100000, 77}) {
    void* block = nullptr;
    ASSERT_ACL(aclrtMalloc(&block, 4096, static_cast<aclrtMemMallocPolicy>(policy))) << "policy " << policy;
    EXPECT_ACL(aclrtFree(block));
  }
}

TEST_F(MemoryTest, EveryByteOfABlockCanBeUsed) {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{512}, size_t{32768}, size_t{65537}, 5 * kMiB + 3}) {
    const Bytes contents = pattern(bytes);
    EXPECT_EQ(download(device_copy_of(contents), bytes), contents) << bytes << " bytes";
  }
}

TEST_F(MemoryTest, ZeroBytesAreRefused) {
  void* block = nullptr;
  for (const auto allocate : kAllocators) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, allocate(&block, 0, kPolicy));
    EXPECT_RECENT_ERROR("0 bytes");
  }
}

TEST_F(MemoryTest, SizesBeyondTheDeviceFailWithOutOfMemory) {
  void* block = nullptr;
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 31, SIZE_MAX - 4096, SIZE_MAX / 2, size_t{1} << 62, size_t{1} << 41}) {
    for (const auto allocate : kAllocators) {
      EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, allocate(&block, bytes, kPolicy)) << bytes;
      EXPECT_RECENT_ERROR(std::to_string(bytes));
    }
  }
  ASSERT_ACL(aclrtMalloc(&block, 1000, kPolicy));
  EXPECT_ACL(aclrtFree(block));
}

TEST_F(MemoryTest, ThreadWithoutADeviceCannotAllocate) {
  std::thread([] {
    void* block = nullptr;
    size_t free = 0;
    size_t total = 0;
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&block, 64, kPolicy));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  }).join();
}

TEST_F(MemoryTest, ConfigurationIsChecked) {
  void* block = nullptr;
  aclrtMallocAttribute attributes[2] = {};
  attributes[0].attr = ACL_RT_MEM_ATTR_MODULE_ID;
  attributes[0].value.moduleId = 33;
  attributes[1].attr = ACL_RT_MEM_ATTR_DEVICE_ID;
  attributes[1].value.deviceId = 0;
  aclrtMallocConfig config = {attributes, 2};
  ASSERT_ACL(aclrtMallocWithCfg(&block, 100, kPolicy, &config));
  EXPECT_ACL(aclrtFree(block));

  attributes[1].value.deviceId = 1;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMallocWithCfg(&block, 100, kPolicy, &config));
  attributes[1].attr = static_cast<aclrtMallocAttrType>(99);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocWithCfg(&block, 100, kPolicy, &config));
  config.attrs = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtMallocWithCfg(&block, 100, kPolicy, &config));
}

TEST_F(MemoryTest, DoubleFreeIsExplained) {
  for (const size_t bytes : {size_t{100}, size_t{100'000}, 4 * kMiB}) {
    DeviceBuffer buffer = make_device_buffer(bytes);
    void* const freed = buffer.release();
    ASSERT_ACL(aclrtFree(freed));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(freed));
    EXPECT_RECENT_ERROR("double free");
  }
}

TEST_F(MemoryTest, UseAfterFreeIsExplained) {
  Bytes host(64);
  for (const size_t bytes : {size_t{100}, size_t{100'000}, 4 * kMiB}) {
    void* const freed = make_device_buffer(bytes).release();
    ASSERT_ACL(aclrtFree(freed));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(host.data(), 64, freed, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT_RECENT_ERROR("use after free");
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(freed, 64, 0, 64));
    EXPECT_RECENT_ERROR("use after free");
  }
}

TEST_F(MemoryTest, FreeOfAnInteriorPointerIsRefusedAndNamesTheBlock) {
  for (const size_t bytes : {size_t{300}, 2 * kMiB}) {
    DeviceBuffer buffer = make_device_buffer(bytes);
    char base[32];
    std::snprintf(base, sizeof base, "%p", buffer.get());
    for (const ptrdiff_t offset : {ptrdiff_t{1}, ptrdiff_t{64}, static_cast<ptrdiff_t>(bytes) - 1}) {
      EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(at(buffer, offset)));
      EXPECT_RECENT_ERROR(base);
    }
    EXPECT_ACL(aclrtMemset(buffer, bytes, 7, bytes)) << "the block was freed";
  }
}

TEST_F(MemoryTest, FreeOfAnUnknownPointerIsRefused) {
  int on_stack = 0;
  auto on_heap = std::make_unique<int>();
  PinnedBuffer pinned = make_pinned_buffer(4096);
  DeviceBuffer buffer = make_device_buffer(512);
  void* const foreign[] = {&on_stack,
                           on_heap.get(),
                           pinned,
                           reinterpret_cast<void*>(1),
                           reinterpret_cast<void*>(0xDEADBEEFDEADBEEF),
                           reinterpret_cast<void*>(UINTPTR_MAX),
                           at(buffer, ptrdiff_t{1} << 36)};
  for (void* const pointer : foreign) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(pointer)) << pointer;
    EXPECT_NE(recent_error(), "") << pointer;
  }
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtFree(nullptr));
  EXPECT_RECENT_ERROR("devPtr");
}

TEST_F(MemoryTest, FreeWaitsForNoStream) {
  Stream stream = make_stream();
  Gate gate(stream);
  DeviceBuffer buffer = make_device_buffer(kMiB);
  EXPECT_ACL(aclrtFree(buffer.release()));
  aclrtStreamStatus status;
  EXPECT_ACL(aclrtStreamQuery(stream, &status));
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
}

TEST_F(MemoryTest, AnyThreadMayFree) {
  void* const block = make_device_buffer(1000).release();
  std::thread([block] { EXPECT_ACL(aclrtFree(block)); }).join();
}

// Many blocks of all sizes at once.
TEST_F(MemoryTest, LiveBlocksKeepTheirContents) {
  struct Block {
    DeviceBuffer memory;
    size_t bytes;
    uint32_t seed;
  };
  std::minstd_rand random(4);
  std::vector<Block> blocks;
  for (int step = 0; step < 1500; ++step) {
    if (blocks.size() > 60 || (!blocks.empty() && random() % 3 == 0)) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block& oldest = blocks.back();
      ASSERT_EQ(download(oldest.memory, oldest.bytes), pattern(oldest.bytes, oldest.seed));
      blocks.pop_back();
      continue;
    }
    const size_t bytes = 1 + random() % (size_t{1} << random() % 19);
    const auto seed = static_cast<uint32_t>(step + 1);
    blocks.push_back({device_copy_of(pattern(bytes, seed)), bytes, seed});
  }
}

TEST_F(MemoryTest, MemoryInfoNeedsAKnownAttribute) {
  size_t free = 0;
  size_t total = 0;
  ASSERT_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  EXPECT_GT(total, 0u);
  EXPECT_LE(free, total);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtGetMemInfo(static_cast<aclrtMemAttr>(99), &free, &total));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtGetMemInfo(static_cast<aclrtMemAttr>(-1), &free, &total));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &total));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtGetMemInfo(ACL_HBM_MEM, &free, nullptr));
}

TEST_F(MemoryTest, UsageCountsTheMemoryOfThisProcessAndItsPeak) {
  const auto usage = [] {
    aclrtMemUsageInfo info = {};
    size_t count = 0;
    EXPECT_ACL(aclrtGetMemUsageInfo(0, &info, 1, &count));
    EXPECT_EQ(count, 1u);
    return info;
  };
  const uint64_t before = usage().curMemSize;
  {
    DeviceBuffer buffer = make_device_buffer(8 * kMiB);
    EXPECT_GE(usage().curMemSize, before + 8 * kMiB);
  }
  EXPECT_EQ(usage().curMemSize, before);
  EXPECT_GE(usage().memPeakSize, before + 8 * kMiB);

  aclrtMemUsageInfo info = {};
  size_t count = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, aclrtGetMemUsageInfo(0, &info, 0, &count));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUsageInfo(-1, &info, 1, &count));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetMemUsageInfo(1000, &info, 1, &count));
}

TEST_F(MemoryTest, PointerAttributesDistinguishDevicePinnedAndPageable) {
  const auto location = [](const void* pointer) {
    aclrtPtrAttributes attributes = {};
    EXPECT_ACL(aclrtPointerGetAttributes(pointer, &attributes));
    return attributes.location;
  };
  DeviceBuffer device = make_device_buffer(1000);
  PinnedBuffer pinned = make_pinned_buffer(1000);
  int pageable = 0;
  EXPECT_EQ(location(device).type, ACL_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(location(device).id, 0u);
  EXPECT_EQ(location(at(device, 999)).type, ACL_MEM_LOCATION_TYPE_DEVICE) << "the last byte of the block";
  EXPECT_EQ(location(pinned).type, ACL_MEM_LOCATION_TYPE_HOST);
  EXPECT_EQ(location(&pageable).type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);

  void* const freed = device.release();
  EXPECT_ACL(aclrtFree(freed));
  aclrtPtrAttributes attributes = {};
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtPointerGetAttributes(freed, &attributes));
  EXPECT_RECENT_ERROR("use after free");
}

TEST_F(MemoryTest, AttributesNameTheDeviceOfThePointer) {
  uint32_t count = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&count));
  if (count < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_ACL(aclrtSetDevice(1));
  {
    DeviceBuffer buffer = make_device_buffer(64);
    aclrtPtrAttributes attributes = {};
    EXPECT_ACL(aclrtPointerGetAttributes(buffer, &attributes));
    EXPECT_EQ(attributes.location.id, 1u);
  }
  EXPECT_ACL(aclrtResetDevice(1));
}

// In child processes with little memory and their own ledger.

std::vector<std::string> small_device(const TempDir& folder) {
  return {"SOFTNPU_DEVICE_MEMORY=64M", "SOFTNPU_HOST_MEMORY=1G", "SOFTNPU_LEDGER_DIR=" + folder.path().string()};
}

using ChildMemory = AclFixture;

TEST_F(ChildMemory, FillsTheDevice) {
  size_t free = 0;
  size_t total = 0;
  ASSERT_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  EXPECT_EQ(total, 64 * kMiB);
  EXPECT_EQ(free, total);

  std::vector<DeviceBuffer> buffers;
  for (int i = 0; i < 7; ++i) buffers.push_back(make_device_buffer(8 * kMiB));
  ASSERT_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  EXPECT_EQ(free, 8 * kMiB);

  void* block = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&block, 8 * kMiB + 1, kPolicy));
  const std::string message = recent_error();
  for (const size_t number : {8 * kMiB + 1, 8 * kMiB, 64 * kMiB}) {
    EXPECT_TRUE(message.find(std::to_string(number)) != std::string::npos) << number << " is missing in: " << message;
  }

  const Bytes contents = pattern(8 * kMiB);
  upload(buffers[3], contents);
  EXPECT_EQ(download(buffers[3], contents.size()), contents) << "a full device damaged an allocation";
  buffers.pop_back();
  ASSERT_ACL(aclrtMalloc(&block, 16 * kMiB, kPolicy)) << "freed memory cannot be allocated again";
  EXPECT_ACL(aclrtFree(block));
}

TEST_F(ChildMemory, FillsTheDeviceWithSmallBlocks) {
  std::vector<void*> blocks;
  void* block = nullptr;
  while (aclrtMalloc(&block, 30'000, kPolicy) == ACL_SUCCESS) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 64 * kMiB / 32768);
  EXPECT_RECENT_ERROR("30000");
  for (void* const one : blocks) EXPECT_ACL(aclrtFree(one));
  ASSERT_ACL(aclrtMalloc(&block, 64 * kMiB, kPolicy)) << "the memory of small blocks is fragmented";
  EXPECT_ACL(aclrtFree(block));
}

TEST_F(MemoryTest, FullDeviceFailsWithOutOfMemoryAndStaysUsable) {
  REQUIRE_SOFTNPU();
  TempDir folder;
  EXPECT_CHILD_PASSES("ChildMemory.FillsTheDevice", small_device(folder));
  EXPECT_CHILD_PASSES("ChildMemory.FillsTheDeviceWithSmallBlocks", small_device(folder));
}

// Without the fixture: the test resets the device itself.
TEST(ChildMemoryReset, FreesEverything) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  void* block = nullptr;
  ASSERT_ACL(aclrtMalloc(&block, kMiB, kPolicy));
  ASSERT_ACL(aclrtResetDevice(0));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(block, 64, 0, 64));
  EXPECT_NE(recent_error(), "");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(block));
  size_t free = 0;
  size_t total = 0;
  EXPECT_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  EXPECT_EQ(free, total);
  EXPECT_ACL(aclFinalize());
}

TEST_F(MemoryTest, ResettingTheDeviceFreesItsMemory) {
  REQUIRE_SOFTNPU();
  TempDir folder;
  EXPECT_CHILD_PASSES("ChildMemoryReset.FreesEverything", small_device(folder));
}

}  // namespace
}  // namespace softnpu::test
