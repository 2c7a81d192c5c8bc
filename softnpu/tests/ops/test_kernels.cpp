// One kernel of each kind computes correct results, for dense, strided, offset and empty tensors.
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_adds.h"
#include "aclnnop/aclnn_batch_norm.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_clamp.h"
#include "aclnnop/aclnn_foreach_add_scalar_list.h"
#include "aclnnop/aclnn_gelu_backward_v2.h"
#include "aclnnop/aclnn_layer_norm_backward.h"
#include "aclnnop/aclnn_linalg_vector_norm.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_nonzero.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_roll.h"
#include "aclnnop/aclnn_sort.h"
#include "ops/operands.h"

namespace softnpu::test {
namespace {

class Kernels : public OpsFixture {
 protected:
  Stream stream = make_stream();
  Operand a{{2, 3}, {1, 2, 3, 4, 5, 6}};
  Operand out{{2, 3}};
  ScalarObject one = scalar(1);
};

TEST_F(Kernels, AddReadsTransposedOffsetAndExpandedViews) {
  const TensorObject transposed = describe(a.address(), {3, 2}, ACL_FLOAT, {1, 3});
  Operand tall({3, 2});
  ASSERT_ACL(CALL(aclnnAdd, stream, transposed, transposed, scalar(10), tall));
  EXPECT_EQ(tall.read(stream), (Floats{11, 44, 22, 55, 33, 66}));
  const TensorObject last_row = describe(a.address(), {2, 3}, ACL_FLOAT, {0, 1}, 3);
  ASSERT_ACL(CALL(aclnnAdd, stream, a, last_row, one, out));
  EXPECT_EQ(out.read(stream), (Floats{5, 7, 9, 8, 10, 12}));
}

TEST_F(Kernels, AddTakesScalarsAndWorksInPlace) {
  ASSERT_ACL(CALL(aclnnAdds, stream, a, scalar(2), scalar(3), out));
  EXPECT_EQ(out.read(stream), (Floats{7, 8, 9, 10, 11, 12}));
  ASSERT_ACL(CALL(aclnnInplaceAdd, stream, out, a, scalar(-1)));
  EXPECT_EQ(out.read(stream), Floats(6, 6));
}

TEST_F(Kernels, LargeAddIsCorrect) {
  constexpr int64_t kCount = 1 << 18;
  Operand big({kCount}, Floats(kCount, 1));
  Operand sum({kCount});
  ASSERT_ACL(CALL(aclnnAdd, stream, big, big, one, sum));
  EXPECT_EQ(sum.read(stream), Floats(kCount, 2));
}

TEST_F(Kernels, EmptyTensorsMayHaveNoMemory) {
  const TensorObject empty = describe(nullptr, {0, 3});
  EXPECT_ACL(CALL(aclnnAdd, stream, empty, empty, one, empty));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(Kernels, MmTakesATransposedMatrix) {
  const TensorObject transposed = describe(a.address(), {3, 2}, ACL_FLOAT, {1, 3});
  Operand square({2, 2});
  ASSERT_ACL(CALL(aclnnMm, stream, a, transposed, square, int8_t(0)));
  EXPECT_EQ(square.read(stream), (Floats{14, 32, 32, 77}));
}

TEST_F(Kernels, ReductionsTakeArraysAndTypes) {
  Operand rows({2});
  ASSERT_ACL(CALL(aclnnReduceSum, stream, a, int_array({1}), false, ACL_FLOAT, rows));
  EXPECT_EQ(rows.read(stream), (Floats{6, 15}));
  Operand all({});
  aclIntArray* const everything = nullptr;
  ASSERT_ACL(CALL(aclnnLinalgVectorNorm, stream, a, scalar(1), everything, false, ACL_FLOAT, all));
  EXPECT_EQ(all.read(stream), (Floats{21}));
}

TEST_F(Kernels, AbsentScalarsStayAbsent) {
  aclScalar* const none = nullptr;
  ASSERT_ACL(CALL(aclnnClamp, stream, a, scalar(3), none, out));
  EXPECT_EQ(out.read(stream), (Floats{3, 3, 3, 4, 5, 6}));
  ASSERT_ACL(CALL(aclnnClamp, stream, a, none, scalar(3), out));
  EXPECT_EQ(out.read(stream), (Floats{1, 2, 3, 3, 3, 3}));
}

TEST_F(Kernels, SortWritesTwoOutputs) {
  const DeviceBuffer memory = make_device_buffer(6 * sizeof(int64_t));
  ASSERT_ACL(CALL(aclnnSort, stream, a, true, int64_t(1), true, out, describe(memory, {2, 3}, ACL_INT64)));
  EXPECT_EQ(out.read(stream), (Floats{3, 2, 1, 6, 5, 4}));
  std::vector<int64_t> indices(6);
  ASSERT_ACL(aclrtMemcpy(indices.data(), 48, memory, 48, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(indices, (std::vector<int64_t>{2, 1, 0, 2, 1, 0}));
}

TEST_F(Kernels, ResultOfAFunctionalKernelIsCopied) {
  ASSERT_ACL(CALL(aclnnRoll, stream, a, int_array({1}), int_array({1}), out));
  EXPECT_EQ(out.read(stream), (Floats{3, 1, 2, 6, 4, 5}));
}

TEST_F(Kernels, OptionalTensorsMayBeNull) {
  Operand x({2, 1}, {1, 3});
  Operand y({2, 1});
  Operand mean({1});
  Operand inverse({1});
  aclTensor* const none = nullptr;
  ASSERT_ACL(CALL(aclnnBatchNorm, stream, x, none, none, none, none, true, 0.1, 0.0, y, mean, inverse));
  EXPECT_EQ(y.read(stream), (Floats{-1, 1}));
  EXPECT_EQ(mean.read(stream), (Floats{2}));
}

TEST_F(Kernels, CatTakesAListOfTensors) {
  const aclTensor* parts[] = {describe(a.address(), {2, 3}).release(),
                              describe(a.address(), {2, 1}, ACL_FLOAT, {3, 1}).release()};
  const TensorListObject list(aclCreateTensorList(parts, 2));
  Operand joined({2, 4});
  ASSERT_ACL(CALL(aclnnCat, stream, list, int64_t(1), joined));
  EXPECT_EQ(joined.read(stream), (Floats{1, 2, 3, 1, 4, 5, 6, 4}));
}

TEST_F(Kernels, ForeachTakesAListOfScalarsAndAListOfOutputs) {
  const aclTensor* inputs[] = {describe(a.address(), {3}).release(), describe(a.address(), {2}).release()};
  const aclTensor* outputs[] = {describe(out.address(), {3}).release(),
                                describe(out.address(), {2}, ACL_FLOAT, {1}, 3).release()};
  const aclScalar* scalars[] = {scalar(10).release(), scalar(100).release()};
  const TensorListObject from(aclCreateTensorList(inputs, 2));
  const TensorListObject to(aclCreateTensorList(outputs, 2));
  aclScalarList* const values = aclCreateScalarList(scalars, 2);
  out.write(Floats(6, 0));
  ASSERT_ACL(CALL(aclnnForeachAddScalarList, stream, from, values, to));
  EXPECT_EQ(out.read(stream), (Floats{11, 12, 13, 101, 102, 0}));
  EXPECT_ACL(aclDestroyScalarList(values));
}

TEST_F(Kernels, StringsAndFlagsReachTheKernel) {
  Operand zeros({2, 3}, Floats(6, 0));
  std::string approximate = "tanh";
  ASSERT_ACL(CALL(aclnnGeluBackwardV2, stream, a, zeros, approximate.data(), out));
  approximate = "gone";
  EXPECT_EQ(out.read(stream), (Floats{0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_ACL(CALL(aclnnGeluBackwardV2, stream, a, zeros, "wrong", out));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  const char* const none = nullptr;
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, CALL(aclnnGeluBackwardV2, stream, a, zeros, none, out));

  Operand mean({2, 1}, {2, 5});
  Operand inverse({2, 1}, {1, 1});
  Operand bias({3});
  const bool mask[] = {false, false, true};
  aclBoolArray* const wanted = aclCreateBoolArray(mask, 3);
  aclTensor* const absent = nullptr;
  ASSERT_ACL(
      CALL(aclnnLayerNormBackward, stream, a, zeros, int_array({3}), mean, inverse, absent, bias, wanted, absent, absent, bias));
  EXPECT_EQ(bias.read(stream), (Floats{5, 7, 9}));
  EXPECT_ACL(aclDestroyBoolArray(wanted));
}

TEST_F(Kernels, SyncFunctionSetsTheShapeOfItsOutput) {
  Operand sparse({4}, {0, 7, 0, 8});
  const DeviceBuffer memory = make_device_buffer(4 * sizeof(int64_t));
  const TensorObject found = describe(memory, {4, 1}, ACL_INT64);
  ASSERT_ACL(CALL(aclnnNonzero, stream, sparse, found));
  int64_t* dims = nullptr;
  uint64_t count = 0;
  ASSERT_ACL(aclGetViewShape(found, &dims, &count));
  const std::unique_ptr<int64_t[]> owner(dims);
  EXPECT_EQ(Sizes(dims, dims + count), (Sizes{2, 1}));
  std::vector<int64_t> positions(2);
  ASSERT_ACL(aclrtMemcpy(positions.data(), 16, memory, 16, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(positions, (std::vector<int64_t>{1, 3}));
}

TEST_F(Kernels, FailureOfAKernelNamesFunctionShapesAndTypes) {
  ASSERT_ACL(CALL(aclnnRoll, stream, a, int_array({1}), int_array({5}), out));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  EXPECT_RECENT_ERROR("aclnnRoll(x: float32[2, 3], out: float32[2, 3])");
  EXPECT_ACL(CALL(aclnnAdd, stream, a, a, one, out)) << "the stream is not usable after the failure";
  EXPECT_EQ(out.read(stream), (Floats{2, 4, 6, 8, 10, 12}));
}

}  // namespace
}  // namespace softnpu::test
