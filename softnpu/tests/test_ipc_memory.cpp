// One test per sentence of runtime/memory/ipc_memory.h: device memory that several processes use.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

using Key = std::string;

constexpr uint64_t kForAll = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION;

Key export_memory(void* pointer, size_t bytes, uint64_t flags = kForAll) {
  char key[ACL_IPC_HANDLE_SIZE] = {};
  EXPECT_ACL(aclrtIpcMemGetExportKey(pointer, bytes, key, sizeof key, flags));
  return key;
}

void* import_memory(const Key& key) {
  void* address = nullptr;
  EXPECT_ACL(aclrtIpcMemImportByKey(&address, key.c_str(), 0));
  return address;
}

size_t used_bytes() {
  aclrtMemUsageInfo usage{};
  size_t count = 0;
  EXPECT_ACL(aclrtGetMemUsageInfo(0, &usage, 1, &count));
  return usage.curMemSize;
}

class IpcMemoryTest : public AclFixture {};

// --- within one process -------------------------------------------------------------------------------------------------

TEST_F(IpcMemoryTest, BothAddressesReferToTheSameMemory) {
  for (const size_t bytes : {size_t{100}, size_t{5000}, size_t{3} << 20}) {
    SCOPED_TRACE(bytes);
    const Bytes first = pattern(bytes), second = pattern(bytes, 2);
    DeviceBuffer buffer = device_copy_of(first);
    const Key key = export_memory(buffer, bytes);
    void* const opened = import_memory(key);
    EXPECT_NE(opened, buffer.get());
    EXPECT_EQ(download(opened, bytes), first);
    upload(opened, second);
    EXPECT_EQ(download(buffer, bytes), second);
    EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  }
}

TEST_F(IpcMemoryTest, PartOfABlockCanBeShared) {
  const Bytes contents = pattern(10'000);
  DeviceBuffer buffer = device_copy_of(contents);
  const Key key = export_memory(at(buffer, 4321), 1000);
  void* const opened = import_memory(key);
  EXPECT_EQ(download(opened, 1000), Bytes(contents.begin() + 4321, contents.begin() + 5321));
  Bytes more(1001);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(more.data(), 1001, opened, 1001, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_RECENT_ERROR("past the end of the allocation of 1000 bytes");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(more.data(), 1, at(opened, -1), 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
}

TEST_F(IpcMemoryTest, KernelsCanUseIt) {
  REQUIRE_SOFTNPU();
  DeviceBuffer buffer = make_device_buffer(1 << 20);
  const Key key = export_memory(buffer, 1 << 20);
  void* const opened = import_memory(key);
  uintptr_t begin = 0;
  size_t bytes = 0;
  ASSERT_TRUE(driver()->find_allocation(at(opened, 77), &begin, &bytes));
  EXPECT_EQ(begin, reinterpret_cast<uintptr_t>(opened));
  EXPECT_EQ(bytes, size_t{1} << 20);
  const uint64_t frees = *driver()->frees;
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  EXPECT_NE(*driver()->frees, frees) << "the free counter did not change";
  EXPECT_FALSE(driver()->find_allocation(opened, &begin, &bytes));
}

TEST_F(IpcMemoryTest, SameRangeHasTheSameKeyAndTheSameAddress) {
  DeviceBuffer buffer = make_device_buffer(5000);
  const Key key = export_memory(buffer, 5000);
  EXPECT_EQ(export_memory(buffer, 5000), key);
  EXPECT_NE(export_memory(buffer, 4000), key);
  void* const opened = import_memory(key);
  EXPECT_EQ(import_memory(key), opened);
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  EXPECT_EQ(download(opened, 5000).size(), 5000u) << "closing one of two imports unmapped the memory";
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  EXPECT_REFUSED(aclrtMemset(opened, 1, 0, 1));
}

TEST_F(IpcMemoryTest, ImportsAreOnTheCurrentDeviceAndOnlyTheExporterIsCharged) {
  DeviceBuffer buffer = make_device_buffer(1 << 20);
  const size_t used = used_bytes();
  const Key key = export_memory(buffer, 1 << 20);
  void* const opened = import_memory(key);
  aclrtPtrAttributes attributes{};
  EXPECT_ACL(aclrtPointerGetAttributes(opened, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(attributes.location.id, 0u);
  EXPECT_EQ(used_bytes(), used);
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  EXPECT_EQ(used_bytes(), used);
}

TEST_F(IpcMemoryTest, CloseReleasesImportsBeforeTheExport) {
  DeviceBuffer buffer = make_device_buffer(5000);
  const Key key = export_memory(buffer, 5000);
  import_memory(key);
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  import_memory(key);
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  void* opened = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtIpcMemImportByKey(&opened, key.c_str(), 0));
  EXPECT_RECENT_ERROR("no longer shares that memory");
  EXPECT_REFUSED(aclrtIpcMemClose(key.c_str()));
}

TEST_F(IpcMemoryTest, KeyOfFreedMemoryIsRefused) {
  DeviceBuffer buffer = make_device_buffer(1 << 20);
  const Key key = export_memory(buffer, 1 << 20);
  EXPECT_REFUSED(aclrtFree(at(buffer, 512)));
  import_memory(key);  // a free that failed must not end the export
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  ASSERT_ACL(aclrtFree(buffer.release()));
  DeviceBuffer other = make_device_buffer(1 << 20);  // may get the same address
  const Key newer = export_memory(other, 1 << 20);
  EXPECT_NE(newer, key);
  void* opened = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtIpcMemImportByKey(&opened, key.c_str(), 0));
}

TEST_F(IpcMemoryTest, OnlyBlocksOfTheHeapCanBeExported) {
  DeviceBuffer buffer = make_device_buffer(5000);
  char key[ACL_IPC_HANDLE_SIZE];
  EXPECT_REFUSED(aclrtIpcMemGetExportKey(buffer, 5001, key, sizeof key, kForAll));
  EXPECT_REFUSED(aclrtIpcMemGetExportKey(buffer, 0, key, sizeof key, kForAll));
  EXPECT_REFUSED(aclrtIpcMemGetExportKey(key, sizeof key, key, sizeof key, kForAll));
  EXPECT_REFUSED(aclrtIpcMemGetExportKey(buffer, 5000, key, sizeof key - 1, kForAll));
  EXPECT_REFUSED(aclrtIpcMemGetExportKey(buffer, 5000, key, sizeof key, 2));
  const Key good = export_memory(buffer, 5000);
  void* const opened = import_memory(good);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtIpcMemGetExportKey(opened, 5000, key, sizeof key, kForAll));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(opened));
  EXPECT_RECENT_ERROR("aclrtIpcMemClose");
  EXPECT_ACL(aclrtIpcMemClose(good.c_str()));
}

TEST_F(IpcMemoryTest, TamperedKeysAreRefused) {
  DeviceBuffer buffer = make_device_buffer(5000);
  const Key good = export_memory(buffer, 5000);
  void* opened = nullptr;
  for (size_t index = 0; index < good.size(); ++index) {
    SCOPED_TRACE(index);
    Key bad = good;
    bad[index] = bad[index] == '7' ? '6' : '7';
    EXPECT_REFUSED(aclrtIpcMemImportByKey(&opened, bad.c_str(), 0));
  }
  for (const char* bad : {"", "npumem", "nonsense"}) EXPECT_REFUSED(aclrtIpcMemImportByKey(&opened, bad, 0));
  EXPECT_REFUSED(aclrtIpcMemImportByKey(&opened, good.c_str(), 4));
  EXPECT_REFUSED(aclrtIpcMemClose("nonsense"));
}

TEST_F(IpcMemoryTest, WithoutTheFlagOnlyListedProcessesCanImport) {
  DeviceBuffer buffer = make_device_buffer(5000);
  const Key key = export_memory(buffer, 5000, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT);
  void* opened = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtIpcMemImportByKey(&opened, key.c_str(), 0));
  EXPECT_RECENT_ERROR("aclrtIpcMemSetImportPid");
  int32_t pids[] = {1, getpid()};
  EXPECT_REFUSED(aclrtIpcMemSetImportPid(key.c_str(), pids, 0));
  EXPECT_ACL(aclrtIpcMemSetImportPid(key.c_str(), pids, 2));
  EXPECT_ACL(aclrtIpcMemImportByKey(&opened, key.c_str(), 0));
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  int32_t bad = -1;
  EXPECT_REFUSED(aclrtIpcMemSetImportPid(key.c_str(), &bad, 1));
  EXPECT_REFUSED(aclrtIpcMemSetImportPid("nonsense", pids, 1));
}

TEST_F(IpcMemoryTest, ManyImportsLeakNoMappings) {
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  const auto share = [](size_t bytes) {
    DeviceBuffer buffer = make_device_buffer(bytes);
    const Key key = export_memory(buffer, bytes);
    upload(import_memory(key), pattern(bytes));
    EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
  };
  share(1 << 20);
  const auto files_before = files();
  const auto mappings_before = mappings();
  for (int round = 0; round < 100; ++round) share(size_t{1} << (round % 20));
  EXPECT_EQ(files(), files_before);
  EXPECT_NEAR(double(mappings()), double(mappings_before), 50);  // a leak would be at least 100; sanitizers create some mappings
}

TEST_F(IpcMemoryTest, ResetReleasesTheImports) {
  uint32_t devices = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "needs two devices: the fixture uses device 0";
  ASSERT_ACL(aclrtSetDevice(1));
  DeviceBuffer buffer = make_device_buffer(5000);
  const Key key = export_memory(buffer, 5000);
  void* const opened = import_memory(key);
  (void)buffer.release();
  ASSERT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtSetDevice(1));
  EXPECT_REFUSED(aclrtMemset(opened, 1, 0, 1));
  EXPECT_REFUSED(aclrtIpcMemClose(key.c_str()));
  ASSERT_ACL(aclrtResetDevice(1));
  ASSERT_ACL(aclrtSetDevice(0));
}

// --- two processes ------------------------------------------------------------------------------------------------------

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class ChildIpcMemory : public AclFixture {};

TEST_F(ChildIpcMemory, AddOneAndExit) {
  const Key key = setting("ACL_TEST_KEY");
  void* const opened = import_memory(key);
  Bytes contents = download(opened, 100'000);
  EXPECT_EQ(contents, pattern(100'000));
  for (uint8_t& byte : contents) ++byte;
  upload(opened, contents);
  EXPECT_ACL(aclrtIpcMemClose(key.c_str()));
}

TEST_F(ChildIpcMemory, ImportAndGetKilled) {
  upload(import_memory(setting("ACL_TEST_KEY")), Bytes{42});
  _exit(0);
}

TEST_F(ChildIpcMemory, IsNotListed) {
  void* opened = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtIpcMemImportByKey(&opened, setting("ACL_TEST_KEY").c_str(), 0));
}

TEST_F(ChildIpcMemory, ShareAndExit) {
  DeviceBuffer buffer = device_copy_of(pattern(1000));
  std::ofstream(setting("ACL_TEST_FILE")) << export_memory(buffer, 1000);
}

TEST_F(IpcMemoryTest, AnotherProcessReadsAndWrites) {
  DeviceBuffer buffer = device_copy_of(pattern(100'000));
  EXPECT_CHILD_PASSES("ChildIpcMemory.AddOneAndExit", {"ACL_TEST_KEY=" + export_memory(buffer, 100'000)});
  Bytes expected = pattern(100'000);
  for (uint8_t& byte : expected) ++byte;
  EXPECT_EQ(download(buffer, 100'000), expected);
}

TEST_F(IpcMemoryTest, DeathOfAnImporterDoesNotChangeTheMemory) {
  DeviceBuffer buffer = device_copy_of(pattern(1000));
  EXPECT_CHILD_PASSES("ChildIpcMemory.ImportAndGetKilled", {"ACL_TEST_KEY=" + export_memory(buffer, 1000)});
  Bytes expected = pattern(1000);
  expected[0] = 42;
  EXPECT_EQ(download(buffer, 1000), expected);
}

TEST_F(IpcMemoryTest, OtherProcessesMustBeListed) {
  DeviceBuffer buffer = make_device_buffer(1000);
  const Key key = export_memory(buffer, 1000, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT);
  int32_t own = getpid();
  EXPECT_ACL(aclrtIpcMemSetImportPid(key.c_str(), &own, 1));
  EXPECT_CHILD_PASSES("ChildIpcMemory.IsNotListed", {"ACL_TEST_KEY=" + key});
}

TEST_F(IpcMemoryTest, MemoryOfADeadProcessIsRefused) {
  const auto file = std::filesystem::temp_directory_path() / ("acl_test_ipc_memory_" + std::to_string(getpid()));
  EXPECT_CHILD_PASSES("ChildIpcMemory.ShareAndExit", {"ACL_TEST_FILE=" + file.string()});
  Key key;
  std::ifstream(file) >> key;
  std::filesystem::remove(file);
  void* opened = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_IPC_ERROR, aclrtIpcMemImportByKey(&opened, key.c_str(), 0));
  EXPECT_RECENT_ERROR("must be alive");
}

}  // namespace
}  // namespace softnpu::test
