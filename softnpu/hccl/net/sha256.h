// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), with which ranks prove to each other that they know a secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace softnpu::hccl {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void add(const void* data, size_t bytes);
  Digest finish();

 private:
  void add_block(const uint8_t* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

Digest sha256(std::string_view data);
Digest hmac_sha256(const Digest& key, std::string_view message);

// Takes the same time for all digests, so that it tells an attacker nothing.
bool equal(const Digest& a, const Digest& b);

inline std::string_view bytes_of(const Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

// The first 16 bytes of a digest as 32 hexadecimal digits.
std::string short_hex(const Digest& digest);

// Random bytes of the operating system.
void fill_random(void* data, size_t bytes);

}  // namespace softnpu::hccl
