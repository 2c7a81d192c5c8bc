// What phase one refuses, and how it says so: the argument and the reason.
#include <cmath>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_softmax.h"
#include "ops/operands.h"

namespace softnpu::test {
namespace {

class PhaseOne : public OpsFixture {
 protected:
  Stream stream = make_stream();
  Operand a{{2, 3}, {1, 2, 3, 4, 5, 6}};
  Operand b{{2, 3}, {1, 1, 1, 1, 1, 1}};
  Operand out{{2, 3}};
  ScalarObject one = scalar(1);
};

TEST_F(PhaseOne, NullTensorScalarAndResultsAreRefused) {
  aclTensor* const none = nullptr;
  aclScalar* const no_scalar = nullptr;
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnAdd, stream, a, none, one, out));
  EXPECT_RECENT_ERROR("'other' is null");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnAdd, stream, a, b, no_scalar, out));
  EXPECT_RECENT_ERROR("'alpha' is null");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnAdd, stream, a, b, one, none));
  EXPECT_RECENT_ERROR("'out' is null");
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(a, b, one, out, nullptr, &executor));
  EXPECT_RECENT_ERROR("'workspaceSize' is null");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(a, b, one, out, &bytes, nullptr));
  EXPECT_RECENT_ERROR("'executor' is null");
}

TEST_F(PhaseOne, TypesThatTheDeviceLacksAreRefused) {
  const TensorObject odd = describe(a.address(), {2, 3}, ACL_INT4);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, odd, b, one, out));
  EXPECT_RECENT_ERROR("'self'");
  const TensorObject private_format = describe(a.address(), {2, 3}, ACL_FLOAT, {}, 0, ACL_FORMAT_FRACTAL_NZ);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, private_format, b, one, out));
  EXPECT_RECENT_ERROR("format 29 is private");
}

TEST_F(PhaseOne, ResultTypeThatCannotHoldTheResultIsRefused) {
  const TensorObject integers = describe(out.address(), {2, 3}, ACL_INT32);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, b, one, integers));
  EXPECT_RECENT_ERROR("can't be cast");
}

TEST_F(PhaseOne, ShapesThatDoNotFitAreRefused) {
  const Operand wide({2, 4});
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, wide, one, out));
  EXPECT_RECENT_ERROR("self: float32[2, 3], other: float32[2, 4]");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, b, one, wide));
  EXPECT_RECENT_ERROR("'out' has shape [2, 4], but the result has shape [2, 3]");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnInplaceAdd, stream, a, wide, one));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnMm, stream, a, b, out, int8_t(0)));
  EXPECT_RECENT_ERROR("mat1 and mat2 shapes cannot be multiplied");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSoftmax, stream, a, int64_t(2), out));
  EXPECT_RECENT_ERROR("Dimension out of range");
}

TEST_F(PhaseOne, CallThatPassedBeforeDoesNotExcuseAnother) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
    const Operand wide({2, 4});
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, wide, one, out));
  }
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(PhaseOne, NumbersThatDoNotFitAreRefused) {
  const TensorObject integers = describe(out.address(), {2, 3}, ACL_INT32);
  const TensorObject large = describe(out.address(), {6}, ACL_INT32);
  for (int i = 0; i < 2; ++i) {
    EXPECT_ACL(CALL(aclnnInplaceFillScalar, stream, integers, scalar(2e9)));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnInplaceFillScalar, stream, integers, scalar(3e9)));
    EXPECT_RECENT_ERROR("selfRef: int32[2, 3], value: 3e+09: value cannot be converted to type int without overflow");
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnInplaceFillScalar, stream, large, scalar(HUGE_VAL)));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, b, scalar(1e300), out));
    EXPECT_RECENT_ERROR("without overflow");
    EXPECT_ACL(CALL(aclnnAdd, stream, a, b, scalar(HUGE_VAL), out));
  }
  EXPECT_ACL(aclrtSynchronizeStream(stream)) << "a refused call ran";
}

TEST_F(PhaseOne, MemoryThatKernelsCannotReachIsRefused) {
  float on_host[6] = {};
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, describe(on_host, {2, 3}), b, one, out));
  EXPECT_RECENT_ERROR("'self'");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnAdd, stream, describe(nullptr, {2, 3}), b, one, out));
  EXPECT_RECENT_ERROR("address is null");
  const Sizes huge{1 << 30, 1 << 10};
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, describe(a.address(), huge), b, one, out));
  const TensorObject beyond = describe(a.address(), {2, 3}, ACL_FLOAT, {3, 1}, int64_t(1) << 40);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, beyond, b, one, out));
  const TensorObject endless = describe(a.address(), {2, 3}, ACL_FLOAT, {int64_t(1) << 62, int64_t(1) << 62});
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, endless, b, one, out));
  EXPECT_RECENT_ERROR("reach beyond any memory");
}

TEST_F(PhaseOne, PinnedHostMemoryIsTaken) {
  const PinnedBuffer pinned = make_pinned_buffer(6 * sizeof(float));
  std::fill_n(static_cast<float*>(pinned.get()), 6, 2.0f);
  EXPECT_ACL(CALL(aclnnAdd, stream, describe(pinned, {2, 3}), b, one, out));
  EXPECT_EQ(out.read(stream), Floats(6, 3));
}

TEST_F(PhaseOne, NullElementOfAListIsRefused) {
  const aclTensor* parts[] = {nullptr};
  const TensorListObject list(aclCreateTensorList(parts, 1));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnCat, stream, list, int64_t(0), out));
  EXPECT_RECENT_ERROR("'tensors': element 0 is null");
}

}  // namespace
}  // namespace softnpu::test
