// One test per sentence of runtime/memory/virtual_memory.h: reserved addresses, and physical memory that is mapped there.
#include "testing/buffers.h"

namespace softnpu::test {
namespace {

constexpr size_t kPage = size_t{2} << 20;

aclrtPhysicalMemProp memory_of(uint32_t device) {
  aclrtPhysicalMemProp memory{};
  memory.handleType = ACL_MEM_HANDLE_TYPE_NONE;
  memory.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  memory.memAttr = ACL_HBM_MEM_HUGE;
  memory.location = {.id = device, .type = ACL_MEM_LOCATION_TYPE_DEVICE};
  return memory;
}

void* reserve(size_t bytes) {
  void* address = nullptr;
  EXPECT_ACL(aclrtReserveMemAddress(&address, bytes, 0, nullptr, 0));
  return address;
}

aclrtDrvMemHandle take(size_t bytes, uint32_t device = 0) {
  const aclrtPhysicalMemProp memory = memory_of(device);
  aclrtDrvMemHandle handle = nullptr;
  EXPECT_ACL(aclrtMallocPhysical(&handle, bytes, &memory, 0));
  return handle;
}

size_t used_bytes() {
  aclrtMemUsageInfo usage{};
  size_t count = 0;
  EXPECT_ACL(aclrtGetMemUsageInfo(0, &usage, 1, &count));
  return usage.curMemSize;
}

class VirtualMemoryTest : public AclFixture {
 protected:
  void map(void* address, aclrtDrvMemHandle memory) { ASSERT_ACL(aclrtMapMem(address, kPage, 0, memory, 0)); }
};

TEST_F(VirtualMemoryTest, MappedMemoryWorksLikeAllocatedMemory) {
  void* const range = reserve(4 * kPage);
  aclrtDrvMemHandle memory = take(kPage);
  EXPECT_REFUSED(aclrtMemset(range, kPage, 0, kPage));
  map(range, memory);
  const Bytes contents = pattern(kPage);
  upload(range, contents);
  EXPECT_EQ(download(range, kPage), contents);
  DeviceBuffer other = make_device_buffer(kPage);
  Stream stream = make_stream();
  ASSERT_ACL(aclrtMemcpyAsync(other, kPage, range, kPage, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(download(other, kPage), contents);
  EXPECT_ACL(aclrtUnmapMem(range));
  EXPECT_REFUSED(aclrtMemset(range, kPage, 0, kPage));
  EXPECT_ACL(aclrtFreePhysical(memory));
  EXPECT_ACL(aclrtReleaseMemAddress(range));
}

TEST_F(VirtualMemoryTest, RangesMayCrossPiecesButNotGaps) {
  void* const range = reserve(4 * kPage);
  aclrtDrvMemHandle memory[3] = {take(kPage), take(kPage), take(kPage)};
  map(range, memory[0]);
  map(at(range, 2 * kPage), memory[2]);
  EXPECT_REFUSED(aclrtMemset(range, 3 * kPage, 0, 3 * kPage));
  map(at(range, kPage), memory[1]);
  const Bytes contents = pattern(3 * kPage);
  upload(range, contents);
  EXPECT_EQ(download(range, 3 * kPage), contents);
  EXPECT_REFUSED(aclrtMemset(range, 3 * kPage + 1, 0, 3 * kPage + 1));
  EXPECT_ACL(aclrtUnmapMem(at(range, kPage)));
  EXPECT_REFUSED(aclrtMemset(range, kPage + 1, 0, kPage + 1));
  EXPECT_EQ(download(at(range, 2 * kPage), 100), Bytes(contents.begin() + 2 * kPage, contents.begin() + 2 * kPage + 100));
  EXPECT_ACL(aclrtUnmapMem(range));
  EXPECT_ACL(aclrtUnmapMem(at(range, 2 * kPage)));
  for (aclrtDrvMemHandle handle : memory) EXPECT_ACL(aclrtFreePhysical(handle));
  EXPECT_ACL(aclrtReleaseMemAddress(range));
}

TEST_F(VirtualMemoryTest, MemoryKeepsItsContentsWhenItIsMappedElsewhere) {
  void* const range = reserve(2 * kPage);
  aclrtDrvMemHandle memory = take(kPage);
  const Bytes contents = pattern(1000);
  map(range, memory);
  upload(range, contents);
  EXPECT_ACL(aclrtUnmapMem(range));
  map(at(range, kPage), memory);
  EXPECT_EQ(download(at(range, kPage), 1000), contents);
  EXPECT_ACL(aclrtUnmapMem(at(range, kPage)));
  EXPECT_ACL(aclrtFreePhysical(memory));
  EXPECT_ACL(aclrtReleaseMemAddress(range));
}

TEST_F(VirtualMemoryTest, OnlyPhysicalMemoryCounts) {
  const size_t before = used_bytes();
  void* const range = reserve(size_t{1} << 30);
  EXPECT_EQ(used_bytes(), before);
  aclrtDrvMemHandle memory = take(kPage);
  const size_t taken = used_bytes();
  EXPECT_GE(taken, before + kPage);
  EXPECT_LE(taken, before + 2 * kPage);
  map(range, memory);
  EXPECT_EQ(used_bytes(), taken);
  EXPECT_ACL(aclrtUnmapMem(range));
  EXPECT_ACL(aclrtFreePhysical(memory));
  EXPECT_EQ(used_bytes(), before);
  EXPECT_ACL(aclrtReleaseMemAddress(range));
}

TEST_F(VirtualMemoryTest, AllocationBeyondTheDeviceFailsWithOutOfMemory) {
  const aclrtPhysicalMemProp memory = memory_of(0);
  aclrtDrvMemHandle handle = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&handle, size_t{1} << 45, &memory, 0));
  void* address = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtReserveMemAddress(&address, size_t{1} << 45, 0, nullptr, 0));
}

TEST_F(VirtualMemoryTest, KernelsCannotUseUnmappedMemory) {
  REQUIRE_SOFTNPU();
  void* const range = reserve(2 * kPage);
  aclrtDrvMemHandle memory[2] = {take(kPage), take(kPage)};
  map(range, memory[0]);
  map(at(range, kPage), memory[1]);
  uintptr_t begin = 0;
  size_t bytes = 0;
  ASSERT_TRUE(driver()->find_allocation(at(range, kPage + 5), &begin, &bytes));
  EXPECT_EQ(begin, reinterpret_cast<uintptr_t>(range));
  EXPECT_EQ(bytes, 2 * kPage);
  const uint64_t frees = *driver()->frees;
  EXPECT_ACL(aclrtUnmapMem(range));
  EXPECT_NE(*driver()->frees, frees);
  EXPECT_FALSE(driver()->find_allocation(range, &begin, &bytes));
  ASSERT_TRUE(driver()->find_allocation(at(range, kPage), &begin, &bytes));
  EXPECT_EQ(bytes, kPage);
  EXPECT_ACL(aclrtUnmapMem(at(range, kPage)));
  for (aclrtDrvMemHandle handle : memory) EXPECT_ACL(aclrtFreePhysical(handle));
  EXPECT_ACL(aclrtReleaseMemAddress(range));
}

TEST_F(VirtualMemoryTest, MistakesAreRefusedAndChangeNothing) {
  void* const range = reserve(2 * kPage);
  aclrtDrvMemHandle memory = take(kPage), other = take(kPage);
  EXPECT_REFUSED(aclrtMapMem(range, kPage / 2, 0, memory, 0));
  EXPECT_REFUSED(aclrtMapMem(range, kPage, 64 << 10, memory, 0));
  EXPECT_REFUSED(aclrtMapMem(at(range, 100), kPage, 0, memory, 0));
  EXPECT_REFUSED(aclrtMapMem(at(range, 3 * kPage / 2), kPage, 0, memory, 0));
  EXPECT_REFUSED(aclrtMapMem(range, kPage, 0, range, 0));
  map(range, memory);
  EXPECT_REFUSED(aclrtMapMem(at(range, kPage), kPage, 0, memory, 0)) << "the memory is already mapped";
  EXPECT_REFUSED(aclrtMapMem(at(range, kPage / 2), kPage, 0, other, 0)) << "other memory is mapped at this address";
  EXPECT_REFUSED(aclrtFreePhysical(memory));
  EXPECT_REFUSED(aclrtReleaseMemAddress(range));
  EXPECT_REFUSED(aclrtFree(range));
  EXPECT_REFUSED(aclrtUnmapMem(at(range, kPage)));
  upload(range, pattern(kPage));
  EXPECT_ACL(aclrtUnmapMem(range));
  EXPECT_REFUSED(aclrtUnmapMem(range));
  EXPECT_ACL(aclrtFreePhysical(memory));
  EXPECT_REFUSED(aclrtFreePhysical(memory));
  EXPECT_ACL(aclrtFreePhysical(other));
  EXPECT_ACL(aclrtReleaseMemAddress(range));
  EXPECT_REFUSED(aclrtReleaseMemAddress(range));
}

TEST_F(VirtualMemoryTest, ArgumentsAreChecked) {
  void* address = nullptr;
  aclrtDrvMemHandle handle = nullptr;
  aclrtPhysicalMemProp memory = memory_of(0);
  EXPECT_REFUSED(aclrtReserveMemAddress(&address, 0, 0, nullptr, 0));
  EXPECT_REFUSED(aclrtReserveMemAddress(&address, kPage + 1, 0, nullptr, 0));
  EXPECT_REFUSED(aclrtReserveMemAddress(&address, kPage, 3, nullptr, 0));
  EXPECT_REFUSED(aclrtReserveMemAddress(&address, kPage, 0, &address, 0));
  EXPECT_REFUSED(aclrtReserveMemAddress(&address, kPage, 0, nullptr, 2));
  EXPECT_REFUSED(aclrtMallocPhysical(&handle, 1000, &memory, 0));
  EXPECT_REFUSED(aclrtMallocPhysical(&handle, kPage, &memory, 1));
  memory.location.id = 1000;
  EXPECT_REFUSED(aclrtMallocPhysical(&handle, kPage, &memory, 0));
  memory = memory_of(0);
  memory.location.type = ACL_MEM_LOCATION_TYPE_HOST;
  EXPECT_REFUSED(aclrtMallocPhysical(&handle, kPage, &memory, 0));
  memory = memory_of(0);
  size_t granularity = 0;
  EXPECT_ACL(aclrtMemGetAllocationGranularity(&memory, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
  EXPECT_EQ(kPage % granularity, 0u);
  EXPECT_REFUSED(aclrtMemGetAllocationGranularity(&memory, aclrtMemGranularityOptions(7), &granularity));
}

TEST_F(VirtualMemoryTest, MappedMemoryCanBeSharedWithOtherProcesses) {
  void* const range = reserve(3 * kPage);
  aclrtDrvMemHandle memory[3] = {take(kPage), take(kPage), take(kPage)};
  for (int page : {2, 0, 1}) map(at(range, page * kPage), memory[page]);
  const Bytes contents = pattern(3 * kPage);
  upload(range, contents);
  char key[ACL_IPC_HANDLE_SIZE];
  const size_t bytes = 3 * kPage - 100'000;
  ASSERT_ACL(
      aclrtIpcMemGetExportKey(at(range, 50'000), bytes, key, sizeof key, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  void* opened = nullptr;
  ASSERT_ACL(aclrtIpcMemImportByKey(&opened, key, 0));
  EXPECT_EQ(download(opened, bytes), Bytes(contents.begin() + 50'000, contents.begin() + 50'000 + bytes));
  EXPECT_ACL(aclrtMemset(at(opened, kPage), 1, contents[kPage + 50'000] ^ 1, 1));
  EXPECT_EQ(download(at(range, kPage + 50'000), 1)[0], contents[kPage + 50'000] ^ 1);
  EXPECT_ACL(aclrtIpcMemClose(key));
  EXPECT_ACL(aclrtUnmapMem(at(range, kPage)));
  EXPECT_REFUSED(aclrtIpcMemImportByKey(&opened, key, 0)) << "a part of the range was unmapped";
  EXPECT_ACL(aclrtUnmapMem(range));
  EXPECT_ACL(aclrtUnmapMem(at(range, 2 * kPage)));
  for (aclrtDrvMemHandle handle : memory) EXPECT_ACL(aclrtFreePhysical(handle));
  EXPECT_ACL(aclrtReleaseMemAddress(range));
}

}  // namespace
}  // namespace softnpu::test
