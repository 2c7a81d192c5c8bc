// The fault rule `wrong` (runtime/checks/wrong_value.h).
#include <cmath>
#include <complex>
#include <limits>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_neg.h"
#include "ops/dump_fixture.h"
#include "runtime/softnpu.h"
#include "testing/capture_fixture.h"

namespace softnpu::test {
namespace {

class WrongValueTest : public DumpFixture {
 protected:
  ~WrongValueTest() override { set("off"); }

  static aclError control(const std::string& command) {
    std::string reply(4096, '\0');
    return softnpuControl(command.c_str(), reply.data(), reply.size());
  }
  static void set(const std::string& rules) { EXPECT_ACL(control("faults " + rules)); }
  Floats negated() {
    EXPECT_ACL(CALL(aclnnNeg, stream, a, out));
    return out.read(stream);
  }
  // The three elements after a fill with `value`. The middle one is wrong.
  template <typename Element>
  std::vector<Element> filled(double value, aclDataType dtype) {
    std::vector<Element> values(3);
    const size_t bytes = 3 * sizeof(Element);
    DeviceBuffer buffer = make_device_buffer(bytes);
    set("wrong:InplaceFillScalar:1");
    EXPECT_ACL(CALL(aclnnInplaceFillScalar, stream, describe(buffer, {3}, dtype), scalar(value)));
    EXPECT_ACL(aclrtSynchronizeStream(stream));
    EXPECT_ACL(aclrtMemcpy(values.data(), bytes, buffer, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    return values;
  }

  const Floats right{-1, -2, -3, -4};
  const Floats wrong{-1, -2, 3, -4};
};

TEST_F(WrongValueTest, NthLaunchOfTheOperatorHasOneWrongElement) {
  set("wrong:aclnnNeg:2");
  EXPECT_EQ(negated(), right);
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44})) << "another operator counts";
  EXPECT_EQ(negated(), wrong);
  EXPECT_EQ(negated(), right);
}

TEST_F(WrongValueTest, NameMayLackItsPrefixAndOtherTimesWork) {
  set("wrong:Neg:every 2");
  for (int round = 1; round <= 4; ++round) EXPECT_EQ(negated(), round % 2 == 0 ? wrong : right) << round;
  set("wrong:Neg:2+");
  for (int round = 1; round <= 3; ++round) EXPECT_EQ(negated(), round >= 2 ? wrong : right) << round;
  set("wrong:Neg:1,wrong:Neg:3");
  for (int round = 1; round <= 3; ++round) EXPECT_EQ(negated(), round != 2 ? wrong : right) << round;
}

TEST_F(WrongValueTest, FloatingPointNumbersChangeTheirSignOrGrowByOne) {
  EXPECT_EQ(filled<float>(5, ACL_FLOAT), (Floats{5, -5, 5}));
  EXPECT_EQ(filled<float>(0.25, ACL_FLOAT), (Floats{0.25, 1.25, 0.25}));
  EXPECT_EQ(filled<float>(std::numeric_limits<double>::infinity(), ACL_FLOAT)[1], 0);
  EXPECT_EQ(filled<float>(std::nan(""), ACL_FLOAT)[1], 0);
  EXPECT_EQ(filled<double>(-3, ACL_DOUBLE), (std::vector<double>{-3, 3, -3}));
  EXPECT_EQ(filled<uint16_t>(1, ACL_FLOAT16), (std::vector<uint16_t>{0x3C00, 0xBC00, 0x3C00}));
  EXPECT_EQ(filled<uint16_t>(0, ACL_BF16), (std::vector<uint16_t>{0, 0x3F80, 0}));
  using Complex = std::complex<float>;
  EXPECT_EQ(filled<Complex>(2, ACL_COMPLEX64), (std::vector<Complex>{2, -2, 2}));
  using LongComplex = std::complex<double>;
  EXPECT_EQ(filled<LongComplex>(0, ACL_COMPLEX128), (std::vector<LongComplex>{0, 1, 0}));
}

TEST_F(WrongValueTest, IntegersAndBoolsChangeTheirLowestBit) {
  EXPECT_EQ(filled<int8_t>(-1, ACL_INT8), (std::vector<int8_t>{-1, -2, -1}));
  EXPECT_EQ(filled<uint8_t>(255, ACL_UINT8), (std::vector<uint8_t>{255, 254, 255}));
  EXPECT_EQ(filled<int16_t>(300, ACL_INT16), (std::vector<int16_t>{300, 301, 300}));
  EXPECT_EQ(filled<int32_t>(70000, ACL_INT32), (std::vector<int32_t>{70000, 70001, 70000}));
  EXPECT_EQ(filled<int64_t>(-8, ACL_INT64), (std::vector<int64_t>{-8, -7, -8}));
  EXPECT_EQ(filled<uint8_t>(1, ACL_BOOL), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(filled<uint8_t>(0, ACL_BOOL), (std::vector<uint8_t>{0, 1, 0}));
}

TEST_F(WrongValueTest, OnlyTheMemoryOfTheOutputChanges) {
  Operand target({8}, Floats(8, 9));
  const Operand source({2, 2}, {1, 2, 3, 4});
  set("wrong:Neg:1");
  ASSERT_ACL(CALL(aclnnNeg, stream, source, describe(target.address(), {2, 2}, ACL_FLOAT, {1, 4})));
  EXPECT_EQ(target.read(stream), (Floats{-1, 3, 9, 9, -2, -4, 9, 9})) << "element 2, in row 1 and column 0, is 3 and not -3";
}

TEST_F(WrongValueTest, EmptyOutputsAreLeftAlone) {
  Operand empty({0}), none({0});
  set("wrong:Neg:1");
  ASSERT_ACL(CALL(aclnnNeg, stream, empty, none));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(negated(), right);
}

TEST_F(WrongValueTest, ReplaysAreLaunches) {
  Stream captured = make_stream();
  set("wrong:Neg:2");
  ASSERT_ACL(aclmdlRICaptureBegin(captured, kGlobal));
  ASSERT_ACL(CALL(aclnnNeg, captured, a, out));
  aclmdlRI graph = nullptr;
  ASSERT_ACL(aclmdlRICaptureEnd(captured, &graph));
  const Graph owner(graph);
  for (int replay = 1; replay <= 3; ++replay) {
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
    EXPECT_EQ(out.read(stream), replay == 2 ? wrong : right) << replay;
  }
}

TEST_F(WrongValueTest, BadRuleIsRefused) {
  for (const std::string bad : {"wrong", "wrong:1", "wrong:Neg", "wrong:Neg:", "wrong:Neg:0", "wrong::1", "wrong:aclnn:1",
                                "wrong:a-b:1", "wrong:Neg:1:507015", "wrong:Neg:stream=1"}) {
    EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, control("faults " + bad));
    EXPECT_RECENT_ERROR("'" + bad + "' is not a fault rule");
  }
}

#if SOFTNPU_TESTS_DUMPS
TEST_F(WrongValueTest, DumpHoldsTheWrongValue) {
  set("wrong:Neg:1");
  begin();
  EXPECT_EQ(negated(), wrong);
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  EXPECT_EQ(dumps[0].outputs.at(0).as<float>(), wrong);
}
#endif

}  // namespace
}  // namespace softnpu::test
