// Kernels stay inside their tensors and compute correct results for arguments that few programs use: outputs that overlap inputs,
// strided inputs, empty sequences, values out of range.
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_amax.h"
#include "aclnnop/aclnn_exp.h"
#include "aclnnop/aclnn_index_select.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_nll_loss_backward.h"
#include "aclnnop/aclnn_soft_attention.h"
#include "aclnnop/aclnn_soft_geev.h"
#include "aclnnop/aclnn_soft_histogramdd.h"
#include "aclnnop/aclnn_soft_roi_pool_backward.h"
#include "aclnnop/aclnn_soft_weight_norm_backward.h"
#include "ops/operands.h"

namespace softnpu::test {
namespace {

class HostileArguments : public OpsFixture {
 protected:
  // A dense tensor of another type than float32.
  template <typename T>
  struct Typed {
    Typed(const Sizes& sizes, aclDataType dtype, const std::vector<T>& values)
        : buffer(make_device_buffer(sizeof(T) * values.size())), tensor(describe(buffer, sizes, dtype)) {
      EXPECT_ACL(
          aclrtMemcpy(buffer, sizeof(T) * values.size(), values.data(), sizeof(T) * values.size(), ACL_MEMCPY_HOST_TO_DEVICE));
    }
    operator aclTensor*() const { return tensor; }

    DeviceBuffer buffer;
    TensorObject tensor;
  };

  // The call is refused by phase one, or its task fails.
  void expect_failure(aclnnStatus status, const char* words) {
    const aclError failure = status != ACLNN_SUCCESS ? status : aclrtSynchronizeStream(stream);
    EXPECT_NE(failure, ACL_SUCCESS);
    EXPECT_NE(recent_error().find(words), std::string::npos) << recent_error();
  }

  Stream stream = make_stream();
};

TEST_F(HostileArguments, AnOutputMayOverlapTheInputsOfAKernelThatIsNotElementwise) {
  Operand self({4}, {0, 1, 2, 3});
  const Typed<int64_t> index({4}, ACL_INT64, {3, 2, 1, 0});
  ASSERT_ACL(CALL(aclnnIndexSelect, stream, self, 0, index, self));
  EXPECT_EQ(self.read(stream), (Floats{3, 2, 1, 0}));

  Operand matrix({2, 2}, {1, 2, 3, 4});
  ASSERT_ACL(CALL(aclnnMm, stream, matrix, matrix, matrix, int8_t(0)));
  EXPECT_EQ(matrix.read(stream), (Floats{7, 10, 15, 22}));

  Operand values({3}, {5, -1, 7});
  const TensorObject first = describe(values.address(), {}, ACL_FLOAT);
  ASSERT_ACL(CALL(aclnnAmax, stream, values, int_array({0}), false, first));
  EXPECT_EQ(values.read(stream), (Floats{7, -1, 7}));
}

TEST_F(HostileArguments, AnOutputMayOverlapAnInputInPart) {
  Operand values({3}, {0, 1, 2});
  const TensorObject head = describe(values.address(), {2}), tail = describe(values.address(), {2}, ACL_FLOAT, {}, 1);
  ASSERT_ACL(CALL(aclnnExp, stream, head, tail));
  EXPECT_EQ(values.read(stream), (Floats{0, 1, std::exp(1.0f)}));
}

TEST_F(HostileArguments, WeightNormBackwardReadsStridedGradients) {
  Operand gradient({2, 3}, {1, 2, 3, 4, 5, 6});
  Operand by_columns({2, 3}, {1, 4, 2, 5, 3, 6});
  const TensorObject strided = describe(by_columns.address(), {2, 3}, ACL_FLOAT, {1, 2});
  Operand v({2, 3}, {3, 0, 4, 0, 5, 12}), g({2, 1}, {2, 3}), norms({2, 1}, {5, 13});
  Operand expected_v({2, 3}), expected_g({2, 1}), for_v({2, 3}), for_g({2, 1});
  ASSERT_ACL(CALL(aclnnSoftWeightNormBackward, stream, gradient, v, g, norms, 0, expected_v, expected_g));
  ASSERT_ACL(CALL(aclnnSoftWeightNormBackward, stream, strided, v, g, norms, 0, for_v, for_g));
  EXPECT_EQ(for_v.read(stream), expected_v.read(stream));
  EXPECT_EQ(for_g.read(stream), (Floats{3, 97.0f / 13}));
}

TEST_F(HostileArguments, AttentionWithoutKeysGivesZeros) {
  Operand query({1, 1, 3, 2}, Floats(6, 1)), out({1, 1, 3, 2}, Floats(6, 5)), sums({1, 1, 3});
  const TensorObject none = describe(nullptr, {1, 1, 0, 2});
  ASSERT_ACL(CALL(aclnnSoftAttention, stream, query, none, none, static_cast<aclTensor*>(nullptr), 0.0, false, 0.0, out, sums));
  EXPECT_EQ(out.read(stream), Floats(6, 0));
  EXPECT_EQ(sums.read(stream), Floats(3, -std::numeric_limits<float>::infinity()));
}

TEST_F(HostileArguments, AHistogramWithoutBinsCountsNothing) {
  Operand points({5, 1}, Floats(5, 0)), edge({1}, {0});
  const aclTensor* edges[] = {edge};
  const TensorListObject list(aclCreateTensorList(edges, 1));
  const TensorObject none = describe(nullptr, {0});
  EXPECT_ACL(CALL(aclnnSoftHistogramdd, stream, points, static_cast<aclTensor*>(nullptr), false, list, none));
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

TEST_F(HostileArguments, TargetsOutOfRangeAreRefusedByTheBackwardPassToo) {
  Operand gradient({2}, {1, 1}), self({2, 3}, Floats(6, 1)), total({}, {1}), out({2, 3});
  for (const int64_t wrong : {-4000000, -3, 3}) {
    const Typed<int64_t> target({2}, ACL_INT64, {0, wrong});
    expect_failure(
        CALL(aclnnNLLLossBackward, stream, gradient, self, target, static_cast<aclTensor*>(nullptr), 0, -100, total, out),
        "out of bounds");
  }
  const Typed<int64_t> target({2}, ACL_INT64, {-100, 2});  // the first one is ignored
  ASSERT_ACL(CALL(aclnnNLLLossBackward, stream, gradient, self, target, static_cast<aclTensor*>(nullptr), 0, -100, total, out));
  EXPECT_EQ(out.read(stream), (Floats{0, 0, 0, 0, 0, -1}));
}

TEST_F(HostileArguments, BoxesThatTheGradientOverlapsAreReadBeforeItIsWritten) {
  Operand gradient({1, 4, 4, 1}, Floats(16, 1)), boxes({1, 5}, Floats(5, 0));
  const Typed<int32_t> places({1, 4, 4, 1}, ACL_INT32, std::vector<int32_t>(16, 0));
  const TensorObject images = describe(boxes.address(), {1, 4, 1, 1});
  ASSERT_ACL(CALL(aclnnSoftRoiPoolBackward, stream, gradient, boxes, places, images));
  EXPECT_EQ(boxes.read(stream), (Floats{4, 4, 4, 4, 0}));
}

TEST_F(HostileArguments, EigenvaluesOfAMatrixThatIsNotFiniteAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Operand self({2, 2}, {nan, 1, 2, 3}), values({4}), vectors({2, 2});
  const TensorObject by_columns = describe(vectors.address(), {2, 2}, ACL_FLOAT, {1, 2});
  const Typed<int32_t> info({}, ACL_INT32, {0});
  expect_failure(CALL(aclnnSoftGeev, stream, self, false, values, by_columns, info), "infinite or NaN");
}

}  // namespace
}  // namespace softnpu::test
