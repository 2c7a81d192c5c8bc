// aclrtReduceAsync: every kind of reduction and every data type.
#include <cmath>
#include <cstring>
#include <limits>

#include "testing/buffers.h"

namespace softnpu::test {
namespace {

using ReduceTest = AclFixture;

constexpr aclrtReduceKind kSum = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM;
constexpr aclrtReduceKind kMax = ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX;
constexpr aclrtReduceKind kMin = ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN;
constexpr aclrtReduceKind kEqual = ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> reduce(aclrtReduceKind kind, aclDataType type, const std::vector<T>& to, const std::vector<T>& from) {
  DeviceBuffer destination = device_copy_of(bytes_of(to));
  DeviceBuffer source = device_copy_of(bytes_of(from));
  EXPECT_ACL(aclrtReduceAsync(destination, source, to.size() * sizeof(T), kind, type, nullptr, nullptr));
  EXPECT_ACL(aclrtSynchronizeStream(nullptr));
  std::vector<T> result(to.size());
  const Bytes bytes = download(destination, to.size() * sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  EXPECT_EQ(download(source, from.size() * sizeof(T)), bytes_of(from)) << "the source changed";
  return result;
}

template <typename T>
void check_type(aclDataType type) {
  const std::vector<T> to = {T(1), T(5), T(7), T(0), T(100)};
  const std::vector<T> from = {T(2), T(5), T(3), T(9), T(20)};
  EXPECT_EQ(reduce(kSum, type, to, from), (std::vector<T>{T(3), T(10), T(10), T(9), T(120)})) << type;
  EXPECT_EQ(reduce(kMax, type, to, from), (std::vector<T>{T(2), T(5), T(7), T(9), T(100)})) << type;
  EXPECT_EQ(reduce(kMin, type, to, from), (std::vector<T>{T(1), T(5), T(3), T(0), T(20)})) << type;
  EXPECT_EQ(reduce(kEqual, type, to, from), (std::vector<T>{T(0), T(1), T(0), T(0), T(0)})) << type;
}

TEST_F(ReduceTest, EveryTypeOfCIsReduced) {
  check_type<float>(ACL_FLOAT);
  check_type<int8_t>(ACL_INT8);
  check_type<int16_t>(ACL_INT16);
  check_type<int32_t>(ACL_INT32);
  check_type<uint32_t>(ACL_UINT32);
}

std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> result;
  for (const float value : values) result.push_back(aclFloatToFloat16(value));
  return result;
}

// The upper half of a float, which is exact for the small numbers of these tests.
std::vector<uint16_t> bfloats(const std::vector<float>& values) {
  std::vector<uint16_t> result;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    result.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return result;
}

TEST_F(ReduceTest, HalfPrecisionIsReduced) {
  const std::vector<float> to = {1.5F, -2, 100};
  const std::vector<float> from = {2.25F, -3, -100};
  const auto check = [&](aclDataType type, const auto& encode) {
    EXPECT_EQ(reduce(kSum, type, encode(to), encode(from)), encode({3.75F, -5, 0})) << type;
    EXPECT_EQ(reduce(kMax, type, encode(to), encode(from)), encode({2.25F, -2, 100})) << type;
    EXPECT_EQ(reduce(kMin, type, encode(to), encode(from)), encode({1.5F, -3, -100})) << type;
  };
  check(ACL_FLOAT16, halves);
  check(ACL_BF16, bfloats);
}

TEST_F(ReduceTest, SumsOfHalfPrecisionAreRoundedToEven) {
  EXPECT_EQ(reduce(kSum, ACL_FLOAT16, halves({2048, 2048, 65504}), halves({1, 3, 65504})),
            halves({2048, 2052, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(reduce(kSum, ACL_BF16, bfloats({256, 256}), bfloats({1, 3})), bfloats({256, 260}));
}

TEST_F(ReduceTest, NegativeNumbersAreReducedAndIntegersWrap) {
  EXPECT_EQ(reduce<int32_t>(kSum, ACL_INT32, {INT32_MAX, -5}, {1, -6}), (std::vector<int32_t>{INT32_MIN, -11}));
  EXPECT_EQ(reduce<int8_t>(kMin, ACL_INT8, {-128, 3}, {127, -3}), (std::vector<int8_t>{-128, -3}));
  EXPECT_EQ(reduce<uint32_t>(kMax, ACL_UINT32, {UINT32_MAX, 0}, {1, 1}), (std::vector<uint32_t>{UINT32_MAX, 1}));
}

TEST_F(ReduceTest, NanIsKept) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const aclrtReduceKind kind : {kSum, kMax, kMin}) {
    const std::vector<float> result = reduce<float>(kind, ACL_FLOAT, {nan, 1}, {1, nan});
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1])) << "kind " << kind;
  }
}

TEST_F(ReduceTest, ReductionRunsInTheOrderOfTheStream) {
  Stream stream = make_stream();
  const std::vector<int32_t> ones(1000, 1);
  DeviceBuffer sum = device_copy_of(bytes_of(std::vector<int32_t>(1000, 0)));
  DeviceBuffer source = device_copy_of(bytes_of(ones));
  Gate gate(stream);
  for (int i = 0; i < 5; ++i) ASSERT_ACL(aclrtReduceAsync(sum, source, 4000, kSum, ACL_INT32, stream, nullptr));
  EXPECT_EQ(download(sum, 4000), Bytes(4000, 0)) << "the reduction ran before earlier tasks";
  gate.open();
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(download(sum, 4000), bytes_of(std::vector<int32_t>(1000, 5)));
}

TEST_F(ReduceTest, BadArgumentsAreRefused) {
  DeviceBuffer to = make_device_buffer(64);
  DeviceBuffer from = make_device_buffer(64);
  int32_t host = 0;
  const auto run = [&](void* destination, const void* source, uint64_t bytes, int kind, int type) {
    return aclrtReduceAsync(destination, source, bytes, static_cast<aclrtReduceKind>(kind), static_cast<aclDataType>(type),
                            nullptr, nullptr);
  };
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(to, from, 64, 9, ACL_FLOAT));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(to, from, 64, 14, ACL_FLOAT));
  for (const int type :
       {ACL_DOUBLE, ACL_INT64, ACL_BOOL, ACL_COMPLEX64, ACL_STRING, ACL_DT_UNDEFINED, static_cast<aclDataType>(1000)}) {
    EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(to, from, 64, kSum, type)) << type;
    EXPECT_RECENT_ERROR("data type");
  }
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(to, from, 0, kSum, ACL_FLOAT));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(to, from, 63, kSum, ACL_FLOAT));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(to, from, 4096, kSum, ACL_FLOAT));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(&host, from, 4, kSum, ACL_FLOAT));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, run(to, &host, 4, kSum, ACL_FLOAT));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_ADDR_UNALIGNED, run(at(to, 2), from, 4, kSum, ACL_FLOAT));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, run(nullptr, from, 4, kSum, ACL_FLOAT));
}

}  // namespace
}  // namespace softnpu::test
