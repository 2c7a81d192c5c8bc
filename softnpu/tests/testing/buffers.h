// Buffers with known contents, and copies of them to and from the device.
#pragma once

#include <cstring>
#include <random>

#include "testing/acl_fixture.h"

namespace softnpu::test {

using Bytes = std::vector<uint8_t>;

// Random bytes; the same for the same seed.
inline Bytes pattern(size_t count, uint32_t seed = 1) {
  std::minstd_rand random(seed);
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 8);
  return bytes;
}

inline void upload(void* device, const Bytes& contents) {
  EXPECT_ACL(aclrtMemcpy(device, contents.size(), contents.data(), contents.size(), ACL_MEMCPY_HOST_TO_DEVICE));
}

inline Bytes download(const void* device, size_t count) {
  Bytes contents(count);
  EXPECT_ACL(aclrtMemcpy(contents.data(), count, device, count, ACL_MEMCPY_DEVICE_TO_HOST));
  return contents;
}

inline DeviceBuffer device_copy_of(const Bytes& contents) {
  DeviceBuffer buffer = make_device_buffer(contents.size());
  upload(buffer, contents);
  return buffer;
}

inline Bytes bytes_at(const void* host, size_t count) {
  const auto* begin = static_cast<const uint8_t*>(host);
  return {begin, begin + count};
}

inline PinnedBuffer pinned_copy_of(const Bytes& contents) {
  PinnedBuffer buffer = make_pinned_buffer(contents.size());
  std::memcpy(buffer, contents.data(), contents.size());
  return buffer;
}

// Whether a test may use the same memory on two streams at once, as a broken program would. Under TSan it must not: TSan would
// report the race on the contents.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kRacesOnMemory = false;
#else
inline constexpr bool kRacesOnMemory = true;
#endif

inline void* at(void* base, ptrdiff_t offset) { return static_cast<std::byte*>(base) + offset; }

}  // namespace softnpu::test
