#include "hccl/net/sha256.h"

#include <sys/random.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>

namespace softnpu::hccl {
namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian_word(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

void Sha256::add_block(const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian_word(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

void Sha256::add(const void* data, size_t bytes) {
  const auto* next = static_cast<const uint8_t*>(data);
  total_ += bytes;
  while (bytes > 0) {
    const size_t taken = std::min(bytes, block_.size() - filled_);
    std::memcpy(block_.data() + filled_, next, taken);
    filled_ += taken, next += taken, bytes -= taken;
    if (filled_ < block_.size()) return;
    add_block(block_.data());
    filled_ = 0;
  }
}

Digest Sha256::finish() {
  const uint64_t bits = total_ * 8;
  const uint8_t one = 0x80, zero = 0;
  add(&one, 1);
  while (filled_ != 56) add(&zero, 1);
  uint8_t length[8];
  for (size_t i = 0; i < 8; ++i) length[i] = uint8_t(bits >> (56 - 8 * i));
  add(length, sizeof length);
  Digest digest;
  for (size_t i = 0; i < 32; ++i) digest[i] = uint8_t(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::string_view data) {
  Sha256 hash;
  hash.add(data.data(), data.size());
  return hash.finish();
}

Digest hmac_sha256(const Digest& key, std::string_view message) {
  std::array<uint8_t, 64> inner, outer;
  inner.fill(0x36), outer.fill(0x5c);
  for (size_t i = 0; i < key.size(); ++i) inner[i] ^= key[i], outer[i] ^= key[i];
  Sha256 first;
  first.add(inner.data(), inner.size());
  first.add(message.data(), message.size());
  const Digest middle = first.finish();
  Sha256 second;
  second.add(outer.data(), outer.size());
  second.add(middle.data(), middle.size());
  return second.finish();
}

bool equal(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= unsigned(a[i] ^ b[i]);
  return difference == 0;
}

std::string short_hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (size_t index = 0; index < 16; ++index) {
    hex += kDigits[digest[index] >> 4];
    hex += kDigits[digest[index] & 15];
  }
  return hex;
}

void fill_random(void* data, size_t bytes) {
  auto* next = static_cast<uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t got = getrandom(next, bytes, 0);
    if (got > 0) {
      next += got, bytes -= size_t(got);
      continue;
    }
    std::random_device device;  // a kernel without the call
    *next++ = uint8_t(device());
    --bytes;
  }
}

}  // namespace softnpu::hccl
