// The argument rules of the device table. Phase one refuses a call that breaks a rule, and names the argument, the rule and the
// values.
#include "aclnnop/aclnn_any.h"
#include "aclnnop/aclnn_embedding.h"
#include "aclnnop/aclnn_foreach_add_list_v2.h"
#include "aclnnop/aclnn_layer_norm.h"
#include "aclnnop/aclnn_mse_loss.h"
#include "aclnnop/aclnn_nonzero.h"
#include "aclnnop/aclnn_s_where.h"
#include "aclnnop/aclnn_soft_fused_sgd.h"
#include "aclnnop/aclnn_soft_potrf.h"
#include "aclnnop/aclnn_softmax.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_unfold_grad.h"
#include "ops/operands.h"

namespace softnpu::test {
namespace {

class Rules : public OpsFixture {
 protected:
  TensorListObject list(std::initializer_list<aclTensor*> tensors) {
    const std::vector<const aclTensor*> items(tensors.begin(), tensors.end());
    return TensorListObject(aclCreateTensorList(items.data(), items.size()));
  }
  // A new tensor in the memory of an operand. A list destroys it.
  aclTensor* view(const Operand& operand, const Sizes& sizes) { return describe(operand.address(), sizes).release(); }

  Stream stream = make_stream();
  aclTensor* const absent = nullptr;
};

TEST_F(Rules, SameLetterMeansSameSize) {
  const DeviceBuffer memory = make_device_buffer(64);
  const TensorObject indices = describe(memory, {3}, ACL_INT64);
  const Operand weight({4, 2}), right({3, 2}), narrow({3, 1}), flat({6}), numbers({3});
  EXPECT_ACL(aclrtMemset(memory, 64, 0, 64));
  EXPECT_ACL(CALL(aclnnEmbedding, stream, weight, indices, right));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnEmbedding, stream, weight, indices, narrow));
  EXPECT_RECENT_ERROR("argument 'out' of shape [3, 1] should be as out[I..., D], where I = [3] and D = 2");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnEmbedding, stream, weight, indices, flat));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnEmbedding, stream, flat, indices, right));
  EXPECT_RECENT_ERROR("argument 'weight' of shape [6] should be as weight[V, D]");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnEmbedding, stream, weight, numbers, right));
  EXPECT_RECENT_ERROR("dtype(indices) in int32 int64; indices is float32");
}

TEST_F(Rules, PatternCanDescribeAnArray) {
  const Operand input({2, 3}), out({2, 3}), weight({3}), wide({4}), mean({2, 1});
  EXPECT_ACL(CALL(aclnnLayerNorm, stream, input, int_array({3}), weight, absent, 1e-5, out, mean, absent));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID,
                   CALL(aclnnLayerNorm, stream, input, int_array({4}), wide, absent, 1e-5, out, mean, absent));
  EXPECT_RECENT_ERROR("argument 'input' of shape [2, 3] should be as input[B..., N...], where N = [4]");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID,
                   CALL(aclnnLayerNorm, stream, input, int_array({3}), wide, absent, 1e-5, out, mean, absent));
  EXPECT_RECENT_ERROR("'weightOptional' of shape [4]");
}

TEST_F(Rules, DimensionsAndSizesAreCompared) {
  const Operand x({2, 6}), out({2, 3}), odd({2, 2});
  EXPECT_ACL(CALL(aclnnSwiGlu, stream, x, 1, out));
  EXPECT_ACL(CALL(aclnnSwiGlu, stream, x, -1, out));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSwiGlu, stream, x, 2, out));
  EXPECT_RECENT_ERROR("axis(dim, x); dim is 2, x is [2, 6]");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSwiGlu, stream, x, INT64_MIN, out));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSwiGlu, stream, x, 1, odd));
  EXPECT_RECENT_ERROR("size(x, dim) = 2 * size(out, dim)");
}

TEST_F(Rules, NumbersThatOverflowAreRefused) {
  const Operand gradient({3, 2}), out({6});
  EXPECT_ACL(CALL(aclnnUnfoldGrad, stream, gradient, int_array({6}), 0, 2, 2, out));
  for (const int64_t size : {int64_t(-1), int64_t(7), INT64_MAX, INT64_MIN}) {
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnUnfoldGrad, stream, gradient, int_array({6}), 0, size, 2, out));
  }
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnUnfoldGrad, stream, gradient, int_array({6}), 0, 2, 0, out));
  EXPECT_RECENT_ERROR("step >= 1; step is 0");
}

TEST_F(Rules, OneOfTwoConditionsIsEnough) {
  const Operand a({2, 3}), b({2, 3}), all({}), each({2, 3});
  EXPECT_ACL(CALL(aclnnMseLoss, stream, a, b, 0, each));
  EXPECT_ACL(CALL(aclnnMseLoss, stream, a, b, 1, all));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnMseLoss, stream, a, b, 1, each));
  EXPECT_RECENT_ERROR("reduction = 0 or rank(out) = 0");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnMseLoss, stream, a, b, 3, all));
}

TEST_F(Rules, OutputHasTheCommonShapeOfTheInputs) {
  const DeviceBuffer memory = make_device_buffer(16);
  const TensorObject condition = describe(memory, {3}, ACL_BOOL);
  const Operand column({2, 1}), row({3}), out({2, 3}), larger({2, 2, 3});
  EXPECT_ACL(CALL(aclnnSWhere, stream, condition, column, row, out));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSWhere, stream, condition, column, row, larger));
  EXPECT_RECENT_ERROR("'out' has shape [2, 2, 3], but the inputs broadcast to [2, 3]");
}

TEST_F(Rules, OutputOfAReductionHasTheReducedShape) {
  const DeviceBuffer memory = make_device_buffer(16);
  const Operand a({2, 3});
  const TensorObject rows = describe(memory, {2}, ACL_BOOL), kept = describe(memory, {2, 1}, ACL_BOOL);
  EXPECT_ACL(CALL(aclnnAny, stream, a, int_array({1}), false, rows));
  EXPECT_ACL(CALL(aclnnAny, stream, a, int_array({1}), true, kept));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAny, stream, a, int_array({1}), true, rows));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnAny, stream, a, int_array({2}), false, rows));
}

TEST_F(Rules, ListsHaveTheSameLengthAndShapes) {
  const Operand memory({8});
  const auto two = [&] { return list({view(memory, {2}), view(memory, {3})}); };
  EXPECT_ACL(CALL(aclnnForeachAddListV2, stream, two(), two(), scalar(1), two()));
  const TensorListObject one = list({view(memory, {2})});
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnForeachAddListV2, stream, two(), one, scalar(1), two()));
  EXPECT_RECENT_ERROR("'x2' is a list of 1 tensors, 'x1' one of 2");
  const TensorListObject other = list({view(memory, {2}), view(memory, {4})});
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnForeachAddListV2, stream, two(), other, scalar(1), two()));
  EXPECT_RECENT_ERROR("'x2[1]' of shape [4] should be as x2[S...], where S = [3]");
}

TEST_F(Rules, ListMayBeEmptyIfTheRuleAllowsIt) {
  const Operand memory({8}), other({8});
  const TensorListObject params = list({view(memory, {4})}), grads = list({view(other, {4})}), none = list({});
  EXPECT_ACL(CALL(aclnnSoftFusedSgd, stream, params, grads, none, 0, 0, 0.1, 0, false, false, true, absent, absent));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID,
                   CALL(aclnnSoftFusedSgd, stream, params, none, none, 0, 0, 0.1, 0, false, false, true, absent, absent));
}

TEST_F(Rules, MatricesMustBeInColumnMajorOrder) {
  const Operand matrix({2, 2}, {4, 2, 2, 3});
  const DeviceBuffer memory = make_device_buffer(4);
  const TensorObject info = describe(memory, {1}, ACL_INT32);
  const TensorObject by_columns = describe(matrix.address(), {2, 2}, ACL_FLOAT, {1, 2});
  EXPECT_ACL(CALL(aclnnSoftPotrf, stream, by_columns, false, info));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSoftPotrf, stream, matrix, false, info));
  EXPECT_RECENT_ERROR("by_columns(selfRef)");
}

TEST_F(Rules, OutputOfASyncFunctionMustBeDense) {
  const Operand a({2}, {1, 1});
  const DeviceBuffer memory = make_device_buffer(64);
  const TensorObject strided = describe(memory, {2, 1}, ACL_INT64, {2, 1});
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnNonzero, stream, a, strided));
  EXPECT_RECENT_ERROR("argument 'out' should be dense");
}

// ATen's softmax writes its output as a dense tensor.
TEST_F(Rules, GapsBetweenElementsOfAnOutputAreNotWritten) {
  const Operand a({2, 2}, {1, 1, 1, 1});
  Operand memory({8}, {9, 9, 9, 9, 9, 9, 9, 9});
  const TensorObject strided = describe(memory.address(), {2, 2}, ACL_FLOAT, {4, 2});
  EXPECT_ACL(CALL(aclnnSoftmax, stream, a, 1, strided));
  EXPECT_EQ(memory.read(stream), (Floats{0.5, 9, 0.5, 9, 0.5, 9, 0.5, 9}));
}

// A call with a signature that has passed is not checked again. A call with other sizes is.
TEST_F(Rules, EachNewShapeIsChecked) {
  const Operand x({2, 6}), out({2, 3}), other({4, 3});
  for (int round = 0; round < 3; ++round) {
    EXPECT_ACL(CALL(aclnnSwiGlu, stream, x, 1, out));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSwiGlu, stream, x, 1, other));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, CALL(aclnnSwiGlu, stream, x, 0, out));
  }
}

}  // namespace
}  // namespace softnpu::test
