// Generators, pinned memory, storages and errors.
#include <ATen/core/CachingHostAllocator.h>
#include <gtest/gtest.h>

#include <cstring>

#include "acl/library.h"
#include "core/graph/generator.h"
#include "core/memory/allocator.h"
#include "core/memory/host_allocator.h"
#include "core/memory/storage.h"
#include "gate.h"

namespace torch_npu {
namespace {

NPUGeneratorImpl& impl(const at::Generator& generator) { return *generator.get<NPUGeneratorImpl>(); }

TEST(Generator, OffsetIsAMultipleOfFour) {
  const at::Generator generator = createNPUGenerator(0);
  impl(generator).set_current_seed(7);
  EXPECT_EQ(philox(impl(generator), 1), std::pair(uint64_t{7}, uint64_t{0}));
  EXPECT_EQ(philox(impl(generator), 5), std::pair(uint64_t{7}, uint64_t{4}));
  EXPECT_EQ(impl(generator).get_offset(), 12u);
  EXPECT_THROW(impl(generator).set_offset(3), c10::Error);
}

TEST(Generator, StateIsSeedAndOffsetIn16Bytes) {
  const at::Generator generator = createNPUGenerator(0);
  impl(generator).set_current_seed(42);
  philox(impl(generator), 8);
  const auto state = impl(generator).get_state();
  ASSERT_EQ(state->numel(), 16);
  uint64_t words[2];
  std::memcpy(words, state->data(), sizeof words);
  EXPECT_EQ(words[0], 42u);
  EXPECT_EQ(words[1], 8u);
  const at::Generator other = createNPUGenerator(0);
  impl(other).set_state(*state);
  EXPECT_EQ(philox(impl(other), 1), std::pair(uint64_t{42}, uint64_t{8}));
}

TEST(Generator, EachDeviceHasOneDefault) {
  EXPECT_EQ(getDefaultNPUGenerator(0), getDefaultNPUGenerator(-1));
  EXPECT_NE(getDefaultNPUGenerator(0), getDefaultNPUGenerator(1));
  EXPECT_THROW(getDefaultNPUGenerator(5), c10::Error);
}

TEST(HostAllocator, MemoryIsPinnedAndReusedAfterTheStreamThatUsesIt) {
  at::HostAllocator* allocator = at::getHostAllocator(at::kPrivateUse1);
  at::DataPtr pointer = allocator->allocate(5000);
  int pageable = 0;
  EXPECT_TRUE(is_pinned(pointer.get()));
  EXPECT_FALSE(is_pinned(&pageable));
  void* const address = pointer.get();
  const NPUStream stream = getNPUStreamFromPool();
  Gate gate(stream);
  ASSERT_TRUE(allocator->record_event(pointer.get(), pointer.get_context(), stream));
  pointer.clear();
  EXPECT_NE(allocator->allocate(5000).get(), address);
  gate.open();
  stream.synchronize();
  const at::DataPtr one = allocator->allocate(5000), two = allocator->allocate(5000);
  EXPECT_TRUE(one.get() == address || two.get() == address);
}

TEST(Storage, ResizeKeepsTheBytesThatFit) {
  bind_device();
  c10::StorageImpl storage(c10::StorageImpl::use_byte_size_t(), 4, allocate_memory(4), getNPUAllocator(), true);
  const uint32_t word = 0xCAFEBABE;
  ACL_CALL(aclrtMemcpy, storage.mutable_data(), 4, &word, 4, ACL_MEMCPY_HOST_TO_DEVICE);
  resize_storage(storage, 4000);
  getDefaultNPUStream().synchronize();
  uint32_t read = 0;
  ACL_CALL(aclrtMemcpy, &read, 4, storage.data(), 4, ACL_MEMCPY_DEVICE_TO_HOST);
  EXPECT_EQ(read, word);
  EXPECT_EQ(storage.nbytes(), 4000u);
  resize_storage(storage, 0);
  EXPECT_EQ(storage.data(), nullptr);
}

TEST(Library, InfoNamesOriginPathVersionAndChip) {
  const acl::LibraryInfo& info = acl::library_info();
  EXPECT_EQ(info.origin, "softnpu");
  EXPECT_NE(info.path.find("libascendcl.so"), std::string::npos);
  EXPECT_FALSE(info.version.empty());
  EXPECT_FALSE(info.soc.empty());
}

TEST(Error, NamesFunctionCodeAndReason) {
  bind_device();
  try {
    ACL_CALL(aclrtFree, reinterpret_cast<void*>(0x1234));
    FAIL() << "a wild pointer was freed";
  } catch (const c10::Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("aclrtFree failed with ACL_ERROR_", 0), 0u) << text;
  }
}

}  // namespace
}  // namespace torch_npu
