// Pinned and registered host memory: one test per sentence of runtime/memory/host_memory.h.
#include <sys/mman.h>

#include <algorithm>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

using HostMemoryTest = AclFixture;

constexpr size_t kPage = 4096;

// Pages of the program.
class Pages {
 public:
  explicit Pages(size_t count)
      : bytes_(count * kPage), address_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { munmap(address_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void* get() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* address_;
};

TEST_F(HostMemoryTest, PinnedMemoryIsZeroedHostMemory) {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4097}, size_t{3} << 20}) {
    void* block = nullptr;
    ASSERT_ACL(aclrtMallocHost(&block, bytes));
    PinnedBuffer owner(block);
    auto* begin = static_cast<uint8_t*>(block);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kPage, 0u);
    EXPECT_TRUE(std::all_of(begin, begin + bytes, [](uint8_t byte) { return byte == 0; }));
    std::fill(begin, begin + bytes, 3);
    EXPECT_EQ(begin[bytes - 1], 3);
  }
}

TEST_F(HostMemoryTest, BothAllocatorsRefuseZeroAndHugeSizes) {
  void* block = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocHost(&block, 0));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocHostWithCfg(&block, 0, nullptr));
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 60}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&block, bytes));
    EXPECT_RECENT_ERROR(std::to_string(bytes));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHostWithCfg(&block, bytes, nullptr));
  }
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtMallocHost(nullptr, 64));
}

TEST_F(HostMemoryTest, ConfigurationIsChecked) {
  void* block = nullptr;
  aclrtMallocAttribute attribute = {};
  attribute.attr = ACL_RT_MEM_ATTR_MODULE_ID;
  aclrtMallocConfig config = {&attribute, 1};
  ASSERT_ACL(aclrtMallocHostWithCfg(&block, 100, &config));
  EXPECT_ACL(aclrtFreeHost(block));
  attribute.attr = static_cast<aclrtMallocAttrType>(99);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocHostWithCfg(&block, 100, &config));
  config.attrs = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtMallocHostWithCfg(&block, 100, &config));
}

TEST_F(HostMemoryTest, WrongFreesAreExplained) {
  void* const freed = make_pinned_buffer(100).release();
  ASSERT_ACL(aclrtFreeHost(freed));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(freed));
  EXPECT_RECENT_ERROR("double free");

  PinnedBuffer pinned = make_pinned_buffer(2 * kPage);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(at(pinned, kPage)));
  EXPECT_RECENT_ERROR("not the base");

  int pageable = 0;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(&pageable));
  EXPECT_RECENT_ERROR("never allocated");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(reinterpret_cast<void*>(0xDEADBEEFDEADBEEF)));

  DeviceBuffer device = make_device_buffer(64);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(device));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtFreeHost(nullptr));
}

TEST_F(HostMemoryTest, RegisteredMemoryIsHostMemoryUntilUnregistered) {
  Pages pages(2);
  const auto location = [&](const void* pointer) {
    aclrtPtrAttributes attributes = {};
    EXPECT_ACL(aclrtPointerGetAttributes(pointer, &attributes));
    return attributes.location.type;
  };
  void* device_address = nullptr;
  ASSERT_ACL(aclrtHostRegister(pages.get(), pages.bytes(), ACL_HOST_REGISTER_MAPPED, &device_address));
  EXPECT_NE(device_address, nullptr);
  EXPECT_EQ(location(at(pages.get(), 5000)), ACL_MEM_LOCATION_TYPE_HOST);

  void* asked = nullptr;
  EXPECT_ACL(aclrtHostGetDevicePointer(pages.get(), &asked, 0));
  EXPECT_EQ(asked, device_address);

  ASSERT_ACL(aclrtHostUnregister(pages.get()));
  EXPECT_EQ(location(pages.get()), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostGetDevicePointer(pages.get(), &asked, 0));
}

TEST_F(HostMemoryTest, CopiesWithRegisteredMemoryAreAsynchronous) {
  Pages pages(4);
  ASSERT_ACL(aclrtHostRegisterV2(pages.get(), pages.bytes(), ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
  {
    Stream stream = make_stream();
    DeviceBuffer device = make_device_buffer(pages.bytes());
    const Bytes contents = pattern(pages.bytes());
    Gate gate(stream);
    ASSERT_ACL(aclrtMemcpyAsync(device, pages.bytes(), pages.get(), pages.bytes(), ACL_MEMCPY_HOST_TO_DEVICE, stream));
    std::copy(contents.begin(), contents.end(), static_cast<uint8_t*>(pages.get()));
    gate.open();
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    EXPECT_EQ(download(device, contents.size()), contents) << "the copy read its source before earlier tasks ran";
  }
  EXPECT_ACL(aclrtHostUnregister(pages.get()));
}

TEST_F(HostMemoryTest, TypesAndFlagsOfRegistrationAreChecked) {
  Pages pages(1);
  void* device_address = nullptr;
  for (const auto type : {ACL_HOST_REGISTER_MAPPED, ACL_HOST_REGISTER_IOMEMORY, ACL_HOST_REGISTER_READONLY}) {
    EXPECT_ACL(aclrtHostRegister(pages.get(), pages.bytes(), type, &device_address)) << type;
    EXPECT_ACL(aclrtHostUnregister(pages.get()));
  }
  for (const uint32_t flag : {0U, ACL_HOST_REG_MAPPED, ACL_HOST_REG_IOMEMORY, ACL_HOST_REG_READONLY, ACL_HOST_REG_PINNED}) {
    EXPECT_ACL(aclrtHostRegisterV2(pages.get(), pages.bytes(), flag)) << flag;
    EXPECT_ACL(aclrtHostUnregister(pages.get()));
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID,
                   aclrtHostRegister(pages.get(), pages.bytes(), static_cast<aclrtHostRegisterType>(3), &device_address));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostRegisterV2(pages.get(), pages.bytes(), 1));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostGetDevicePointer(pages.get(), &device_address, 1));
}

TEST_F(HostMemoryTest, RangesThatCannotBeRegisteredAreRefused) {
  Pages pages(4);
  const auto register_range = [&](void* pointer, uint64_t bytes) { return aclrtHostRegisterV2(pointer, bytes, 0); };
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, register_range(at(pages.get(), 64), kPage));
  EXPECT_RECENT_ERROR("multiple of 4096");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, register_range(pages.get(), 0));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, register_range(pages.get(), UINT64_MAX));

  ASSERT_ACL(register_range(at(pages.get(), kPage), 2 * kPage));
  for (const ptrdiff_t first : {0, 1, 2}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, register_range(at(pages.get(), first * kPage), 2 * kPage)) << first;
    EXPECT_RECENT_ERROR("overlap");
  }
  EXPECT_ACL(register_range(at(pages.get(), 3 * kPage), kPage)) << "a neighbouring range was refused";
  EXPECT_ACL(aclrtHostUnregister(at(pages.get(), kPage)));
  EXPECT_ACL(aclrtHostUnregister(at(pages.get(), 3 * kPage)));

  PinnedBuffer pinned = make_pinned_buffer(kPage);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, register_range(pinned, kPage));
  EXPECT_RECENT_ERROR("pinned");
  DeviceBuffer device = make_device_buffer(64 << 10);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, register_range(device, kPage));
  EXPECT_RECENT_ERROR("device memory");
}

TEST_F(HostMemoryTest, UnmappedMemoryCannotBeRegistered) {
  Pages pages(1);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostRegisterV2(pages.get(), uint64_t{1} << 62, 0));
  void* gone = nullptr;
  {
    Pages others(1);
    gone = others.get();
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostRegisterV2(gone, kPage, 0));
}

TEST_F(HostMemoryTest, WrongUnregistrationsAreExplained) {
  Pages pages(2);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostUnregister(pages.get()));
  EXPECT_RECENT_ERROR("not registered");
  ASSERT_ACL(aclrtHostRegisterV2(pages.get(), pages.bytes(), 0));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostUnregister(at(pages.get(), kPage)));
  EXPECT_RECENT_ERROR("not the base");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(pages.get()));
  EXPECT_RECENT_ERROR("unregister");
  EXPECT_ACL(aclrtHostUnregister(pages.get()));
  PinnedBuffer pinned = make_pinned_buffer(kPage);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtHostUnregister(pinned));
  EXPECT_RECENT_ERROR("pinned");
}

TEST_F(HostMemoryTest, CopiesPastTheEndOfPinnedMemoryAreRefused) {
  constexpr size_t kBytes = 1000;
  PinnedBuffer pinned = make_pinned_buffer(kBytes);
  DeviceBuffer device = make_device_buffer(2 * kBytes);
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(device, 2 * kBytes, pinned, kBytes + 1, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT_RECENT_ERROR("past the end");
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(at(pinned, 1), kBytes, device, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_ACL(aclrtMemcpy(at(pinned, 1), kBytes, device, kBytes - 1, ACL_MEMCPY_DEVICE_TO_HOST));
}

}  // namespace
}  // namespace softnpu::test
