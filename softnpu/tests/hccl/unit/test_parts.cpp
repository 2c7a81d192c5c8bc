// The parts of libhccl that no C function shows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "hccl/header.h"
#include "hccl/net/interfaces.h"
#include "hccl/net/sha256.h"
#include "hccl/options.h"
#include "hccl/reduce.h"
#include "hccl/root_info.h"
#include "hccl/topology.h"
#include "testing/option_rows.h"

namespace softnpu::hccl {
namespace {

std::string hex(const Digest& digest) {
  std::string result;
  for (const uint8_t byte : digest) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", byte);
    result += text;
  }
  return result;
}

// FIPS 180-4 and RFC 4231.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  Digest key{};
  std::fill_n(key.begin(), 20, uint8_t{0x0b});  // zeros behind a short key are what HMAC itself puts there
  EXPECT_EQ(hex(hmac_sha256(key, "Hi There")), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST(Interfaces, OrdinaryOnesByNameThenDockerThenLoopback) {
  const Interface loopback{"lo", "127.0.0.1", false, true}, docker{"docker0", "172.17.0.1", false, false};
  const Interface first{"enp1s0", "10.0.0.1", false, false}, second{"eth0", "10.0.0.2", false, false};
  const Interface other{"enp0s0", "fd00::1", true, false};
  EXPECT_EQ(choose_interface({loopback, docker, second, first, other}, "", false), "10.0.0.1");
  EXPECT_EQ(choose_interface({loopback, docker, second}, "", false), "10.0.0.2");
  EXPECT_EQ(choose_interface({loopback, docker}, "", false), "172.17.0.1");
  EXPECT_EQ(choose_interface({loopback}, "", false), "127.0.0.1");
  EXPECT_EQ(choose_interface({}, "", false), "");
  EXPECT_EQ(choose_interface({first, second, other}, "", true), "fd00::1");
  EXPECT_EQ(choose_interface({loopback, docker, other}, "", false), "fd00::1");
  EXPECT_EQ(choose_interface({first, second}, "eth", false), "10.0.0.2");
  EXPECT_EQ(choose_interface({first, second}, "=eth", false), "");
  EXPECT_EQ(choose_interface({first, second}, "=eth0,x", false), "10.0.0.2");
  EXPECT_EQ(choose_interface({first, second}, "^enp", false), "10.0.0.2");
  EXPECT_EQ(choose_interface({first, second}, "^=enp1s0,eth0", false), "");
}

TEST(RootInfo, IsReadAsItWasWritten) {
  RendezvousPoint point;
  point.endpoint = {"fd00::1", 4321};
  fill_random(point.secret.data(), point.secret.size());
  HcclRootInfo info;
  write_root_info(point, &info);
  Result<RendezvousPoint> read = read_root_info(info);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().endpoint.to_text(), "[fd00::1]:4321");
  EXPECT_EQ(read.value().secret, point.secret);
  for (const size_t byte : {0, 8, 20, 60, 80, 110}) {
    HcclRootInfo damaged = info;
    damaged.internal[byte] ^= 4;
    EXPECT_FALSE(read_root_info(damaged).ok()) << byte;
  }
}

TEST(Reduce, NanWinsAndHalvesRoundOnce) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[] = {1, nan, 3, -0.0F}, b[] = {2, 1, nan, 4};
  const void* sources[] = {a, b};
  float result[4];
  find_reduce(HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX)(result, sources, 2, 4);
  EXPECT_EQ(result[0], 2);
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_TRUE(std::isnan(result[2]));
  find_reduce(HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MIN)(result, sources, 2, 4);
  EXPECT_EQ(result[0], 1);
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_TRUE(std::isnan(result[2]));
  // 2048 + 1 + 1: each sum rounded to float16 would stay 2048.
  const uint16_t big[] = {0x6800}, one[] = {0x3C00};
  const void* halves[] = {big, one, one};
  uint16_t sum[1];
  find_reduce(HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM)(sum, halves, 3, 1);
  EXPECT_EQ(sum[0], 0x6801);
}

// The partial results of float16 are float32: a chain of reductions rounds once, too.
TEST(Reduce, PartialResultsAreNotRounded) {
  const uint16_t big[] = {0x6800}, one[] = {0x3C00};  // 2048 and 1
  float partial[1];
  uint16_t sum[1];
  const void* first[] = {big, one};
  find_reduce(HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM, {.destination = true})(partial, first, 2, 1);
  EXPECT_EQ(partial[0], 2049.0F);
  const void* second[] = {partial, one};
  find_reduce(HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM, {.source = true})(sum, second, 2, 1);
  EXPECT_EQ(sum[0], 0x6801);  // 2050
  EXPECT_EQ(partial_size(HCCL_DATA_TYPE_FP16), 4u);
  EXPECT_EQ(partial_size(HCCL_DATA_TYPE_INT64), 8u);
}

TEST(Topology, HostsAreOrderedByTheirLowestRank) {
  const Topology mixed({"b", "a", "b", "b", "a"});
  EXPECT_EQ(mixed.order(), (std::vector<uint32_t>{0, 2, 3, 1, 4}));
  EXPECT_EQ(mixed.host_of(4), 1u);
  EXPECT_EQ(mixed.index_of(4), 1u);
  EXPECT_EQ(mixed.width(), 2u);
  EXPECT_TRUE(mixed.is_mixed());
  EXPECT_FALSE(Topology({"a", "a", "a"}).is_mixed());
  EXPECT_FALSE(Topology({"a", "b", "c"}).is_mixed());
}

TEST(Header, DamagedBytesAreNoHeader) {
  Header expected;
  Header received;
  std::memset(static_cast<void*>(&received), 0x5A, sizeof received);
  EXPECT_EQ(check_header(received, expected, 1, 0).code(), HCCL_E_TCP_TRANSFER);
  EXPECT_TRUE(check_header(expected, expected, 1, 0).ok());
}

TEST(Options, AreDocumented) { test::expect_documented(option_docs()); }

}  // namespace
}  // namespace softnpu::hccl
