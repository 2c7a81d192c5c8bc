// A device in saturation mode (aclrtSetDeviceSatMode): results, and the overflow flag that aclrtGetOverflowStatus reads.
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_muls.h"
#include "ops/operands.h"

namespace softnpu::test {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Saturation : public OpsFixture {
 protected:
  Saturation() { EXPECT_ACL(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION)); }
  ~Saturation() override { EXPECT_ACL(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN)); }

  bool flag() {
    uint64_t words[8] = {};
    EXPECT_ACL(aclrtGetOverflowStatus(status, sizeof words, stream));
    EXPECT_ACL(aclrtSynchronizeStream(stream));
    EXPECT_ACL(aclrtMemcpy(words, sizeof words, status, sizeof words, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT_ACL(aclrtResetOverflowStatus(stream));
    return words[0] != 0;
  }

  Stream stream = make_stream();
  DeviceBuffer status = make_device_buffer(64);
  Operand out{{2}};
};

TEST_F(Saturation, OverflowGivesTheLargestNumberAndSetsTheFlag) {
  const Operand a({2}, {3e38f, -3e38f});
  ASSERT_ACL(CALL(aclnnMuls, stream, a, scalar(2), out));
  EXPECT_EQ(out.read(stream), (Floats{kLargest, -kLargest}));
  EXPECT_TRUE(flag());
  EXPECT_FALSE(flag()) << "the flag was not reset";
  ASSERT_ACL(CALL(aclnnMuls, stream, a, scalar(1), out));
  EXPECT_FALSE(flag());
}

TEST_F(Saturation, InfiniteArgumentsAreTheLargestNumberAndSetNoFlag) {
  const Operand a({2}, {kInfinity, std::nanf("")});
  ASSERT_ACL(CALL(aclnnMuls, stream, a, scalar(1), out));
  EXPECT_EQ(out.read(stream), (Floats{kLargest, 0}));
  EXPECT_FALSE(flag());
}

TEST_F(Saturation, CopiesKeepInfinity) {
  const Operand a({2}, {kInfinity, 1});
  ASSERT_ACL(CALL(aclnnInplaceCopy, stream, out, a));
  EXPECT_EQ(out.read(stream), (Floats{kInfinity, 1}));
  EXPECT_FALSE(flag());
}

TEST_F(Saturation, OtherModeHasInfinityAndNoFlag) {
  ASSERT_ACL(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
  const Operand a({2}, {3e38f, -3e38f});
  ASSERT_ACL(CALL(aclnnMuls, stream, a, scalar(2), out));
  EXPECT_EQ(out.read(stream), (Floats{kInfinity, -kInfinity}));
  EXPECT_FALSE(flag());
}

}  // namespace
}  // namespace softnpu::test
