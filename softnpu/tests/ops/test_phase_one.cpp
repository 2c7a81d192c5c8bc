// The refusals of phase one, which name the argument and the reason.
#include <cmath>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_foreach_add_scalar_list.h"
#include "aclnnop/aclnn_foreach_zero_inplace.h"
#include "aclnnop/aclnn_fused_sgd.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_reduce_sum.h"
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

TEST_F(PhaseOne, UnsupportedTypesAndFormatsAreRefused) {
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

TEST_F(PhaseOne, CallsWithOtherShapesAreCheckedAgain) {
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
  EXPECT_RECENT_ERROR("reaches beyond any memory");
}

TEST_F(PhaseOne, SizesWhoseProductOverflowsAreRefused) {
  constexpr int64_t k32 = int64_t(1) << 32;
  const std::vector<Sizes> shapes{{k32, k32}, {k32, k32 / 2}, {k32 * 256, k32 * 256, 0}, {3, k32, k32}};
  for (const Sizes& sizes : shapes) {
    for (const Sizes& strides : {Sizes{}, Sizes(sizes.size(), 0)}) {
      const TensorObject tensor(aclCreateTensor(sizes.data(), sizes.size(), ACL_FLOAT, strides.empty() ? nullptr : strides.data(),
                                                0, ACL_FORMAT_ND, nullptr, 0, a.address()));
      EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnInplaceFillScalar, stream, tensor, one));
      EXPECT_RECENT_ERROR("'selfRef': shape");
    }
  }
  EXPECT_EQ(a.read(stream), (Floats{1, 2, 3, 4, 5, 6}));
}

TEST_F(PhaseOne, BytesThatOverflowAreRefused) {
  const Sizes sizes{int64_t(1) << 60};
  const Sizes together{0};
  const TensorObject total = describe(out.address(), {}, ACL_COMPLEX128);
  const auto sum = [&](aclDataType dtype) {
    const TensorObject tensor(
        aclCreateTensor(sizes.data(), 1, dtype, together.data(), 0, ACL_FORMAT_ND, nullptr, 0, a.address()));
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    return aclnnReduceSumGetWorkspaceSize(tensor, int_array({0}), false, ACL_COMPLEX128, total, &bytes, &executor);
  };
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, sum(ACL_COMPLEX128));
  EXPECT_RECENT_ERROR("'self': shape [1152921504606846976] with strides [0] and offset 0 has too many elements");
  EXPECT_ACL(sum(ACL_INT8));
}

TEST_F(PhaseOne, EmptyTensorsMayHaveLargeSizes) {
  constexpr int64_t kLarge = int64_t(1) << 40;
  for (const Sizes& sizes : std::vector<Sizes>{{kLarge, 0}, {0, kLarge}, {kLarge, 0, kLarge}}) {
    const TensorObject empty = describe(nullptr, sizes);
    EXPECT_ACL(CALL(aclnnAdd, stream, empty, empty, one, empty));
  }
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(PhaseOne, PinnedHostMemoryIsAccepted) {
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

TEST_F(PhaseOne, NullListsAreRefused) {
  aclTensorList* const none = nullptr;
  aclScalarList* const no_scalars = nullptr;
  const aclTensor* tensors[] = {describe(a.address(), {2, 3}).release()};
  const TensorListObject list(aclCreateTensorList(tensors, 1));
  const aclScalar* numbers[] = {scalar(1).release()};
  aclScalarList* const scalars = aclCreateScalarList(numbers, 1);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnCat, stream, none, int64_t(0), out));
  EXPECT_RECENT_ERROR("aclnnCat: argument 'tensors' is null");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnForeachZeroInplace, stream, none));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnForeachAddScalarList, stream, list, no_scalars, list));
  EXPECT_RECENT_ERROR("argument 'scalars' is null");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnForeachAddScalarList, stream, list, scalars, none));
  EXPECT_RECENT_ERROR("argument 'out' is null");
  EXPECT_ACL(CALL(aclnnForeachAddScalarList, stream, list, scalars, list));
  EXPECT_EQ(a.read(stream), (Floats{2, 3, 4, 5, 6, 7}));
  EXPECT_ACL(aclDestroyScalarList(scalars));
}

TEST_F(PhaseOne, EmptyListsAndNullOptionalListsAreAccepted) {
  const TensorListObject empty(aclCreateTensorList(nullptr, 0));
  EXPECT_ACL(CALL(aclnnForeachZeroInplace, stream, empty));
  const aclTensor* parameters[] = {describe(a.address(), {2, 3}).release()};
  const aclTensor* gradients[] = {describe(b.address(), {2, 3}).release()};
  const TensorListObject params(aclCreateTensorList(parameters, 1));
  const TensorListObject grads(aclCreateTensorList(gradients, 1));
  aclTensorList* const no_buffers = nullptr;
  aclTensor* const no_scale = nullptr;
  EXPECT_ACL(CALL(aclnnFusedSgd, stream, params, grads, no_buffers, no_scale, 0.0f, 0.0f, 1.0f, 0.0f, false, false, true));
  EXPECT_EQ(a.read(stream), (Floats{0, 1, 2, 3, 4, 5}));
}

// Destroyed objects of every kind are refused, also if a call with the same signature has passed before.
TEST_F(PhaseOne, DestroyedObjectsAreRefused) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    aclTensor* const tensor = describe(a.address(), {2, 3}).release();
    aclScalar* const alpha = scalar(1).release();
    EXPECT_ACL(aclDestroyTensor(tensor));
    EXPECT_ACL(aclDestroyScalar(alpha));
    const TensorObject successor = describe(a.address(), {2, 3});
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, tensor, one, out));
    EXPECT_RECENT_ERROR("aclnnAdd: argument 'other' is an aclTensor that was destroyed already");
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, b, alpha, out));
    EXPECT_RECENT_ERROR("argument 'alpha' is an aclScalar that was destroyed already");
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, b, one, tensor));
    EXPECT_RECENT_ERROR("argument 'out'");
  }
  aclIntArray* const dims = int_array({0}).release();
  EXPECT_ACL(aclDestroyIntArray(dims));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnReduceSum, stream, a, dims, true, ACL_FLOAT, out));
  EXPECT_RECENT_ERROR("argument 'dims' is an aclIntArray that was destroyed already");
}

TEST_F(PhaseOne, DestroyedListsAndElementsAreRefused) {
  const aclTensor* tensors[] = {describe(a.address(), {2, 3}).release(), describe(b.address(), {2, 3}).release()};
  aclTensorList* const list = aclCreateTensorList(tensors, 2);
  const Operand joined({4, 3});
  ASSERT_ACL(CALL(aclnnCat, stream, list, int64_t(0), joined));
  EXPECT_ACL(aclDestroyTensor(tensors[1]));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnCat, stream, list, int64_t(0), joined));
  EXPECT_RECENT_ERROR("argument 'tensors[1]' is an aclTensor that was destroyed already");
  EXPECT_REFUSED(aclDestroyTensorList(list));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnCat, stream, list, int64_t(0), joined));
  EXPECT_RECENT_ERROR("argument 'tensors' is an aclTensorList that was destroyed already");
  const aclScalar* numbers[] = {scalar(1).release()};
  aclScalarList* const scalars = aclCreateScalarList(numbers, 1);
  const aclTensor* again[] = {describe(a.address(), {2, 3}).release()};
  const TensorListObject other(aclCreateTensorList(again, 1));
  EXPECT_ACL(aclDestroyScalar(numbers[0]));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnForeachAddScalarList, stream, other, scalars, other));
  EXPECT_RECENT_ERROR("argument 'scalars[0]' is an aclScalar that was destroyed already");
  EXPECT_REFUSED(aclDestroyScalarList(scalars));
}

TEST_F(PhaseOne, GarbageIsRefused) {
  alignas(64) static char bytes[4096] = {};
  void* const pointer = bytes;
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, static_cast<aclTensor*>(pointer), one, out));
  EXPECT_RECENT_ERROR("argument 'other' (");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAdd, stream, a, b, static_cast<aclScalar*>(pointer), out));
  EXPECT_RECENT_ERROR("is not an aclScalar of this operator library");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnCat, stream, static_cast<aclTensorList*>(pointer), int64_t(0), out));
}

}  // namespace
}  // namespace softnpu::test
