// The objects that operators take: what they hold is what was given, and wrong contents are refused at once.
#include "ops/operands.h"

namespace softnpu::test {
namespace {

class Objects : public OpsFixture {};

using Dims = std::unique_ptr<int64_t[]>;

Sizes read_dims(aclnnStatus (*get)(const aclTensor*, int64_t**, uint64_t*), const aclTensor* tensor) {
  int64_t* values = nullptr;
  uint64_t count = 0;
  EXPECT_ACL(get(tensor, &values, &count));
  const Dims owner(values);
  return {values, values + count};
}

TEST_F(Objects, TensorKeepsWhatItWasMadeOf) {
  const Sizes sizes{2, 3};
  const Sizes strides{1, 2};
  const Sizes storage{10};
  const TensorObject tensor(aclCreateTensor(sizes.data(), 2, ACL_BF16, strides.data(), 4, ACL_FORMAT_NCHW, storage.data(), 1,
                                            reinterpret_cast<void*>(0x1000)));
  EXPECT_EQ(read_dims(aclGetViewShape, tensor), sizes);
  EXPECT_EQ(read_dims(aclGetViewStrides, tensor), strides);
  EXPECT_EQ(read_dims(aclGetStorageShape, tensor), storage);
  int64_t offset = 0;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  aclDataType dtype = ACL_DT_UNDEFINED;
  void* address = nullptr;
  EXPECT_ACL(aclGetViewOffset(tensor, &offset));
  EXPECT_ACL(aclGetFormat(tensor, &format));
  EXPECT_ACL(aclGetDataType(tensor, &dtype));
  EXPECT_ACL(aclGetRawTensorAddr(tensor, &address));
  EXPECT_EQ(offset, 4);
  EXPECT_EQ(format, ACL_FORMAT_NCHW);
  EXPECT_EQ(dtype, ACL_BF16);
  EXPECT_EQ(address, reinterpret_cast<void*>(0x1000));
}

TEST_F(Objects, TensorWithoutStridesIsDense) {
  const TensorObject tensor = describe(nullptr, {2, 3, 4});
  EXPECT_EQ(read_dims(aclGetViewStrides, tensor), (Sizes{12, 4, 1}));
}

TEST_F(Objects, TensorOfNoDimensionsTakesNullAndOfManyTakesHundredTwentyEight) {
  EXPECT_EQ(read_dims(aclGetViewShape,
                      TensorObject(aclCreateTensor(nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr))),
            Sizes{});
  const Sizes many(128, 1);
  EXPECT_EQ(read_dims(aclGetViewShape, describe(nullptr, many)), many);
  const Sizes more(129, 1);
  EXPECT_EQ(aclCreateTensor(more.data(), 129, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
  EXPECT_RECENT_ERROR("129 dimensions");
}

TEST_F(Objects, NegativeSizesStridesAndOffsetsAreRefused) {
  const Sizes good{2, 2};
  const Sizes bad{2, -1};
  EXPECT_EQ(aclCreateTensor(bad.data(), 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
  EXPECT_RECENT_ERROR("'viewDims' holds -1 in position 1");
  EXPECT_EQ(aclCreateTensor(good.data(), 2, ACL_FLOAT, bad.data(), 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
  EXPECT_RECENT_ERROR("'stride'");
  EXPECT_EQ(aclCreateTensor(good.data(), 2, ACL_FLOAT, nullptr, -1, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
  EXPECT_RECENT_ERROR("'offset' is -1");
  EXPECT_EQ(aclCreateTensor(nullptr, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
  EXPECT_RECENT_ERROR("'viewDims' is null");
}

TEST_F(Objects, InitTensorGivesATensorNewContents) {
  const TensorObject tensor = describe(nullptr, {2, 3});
  const Sizes sizes{5};
  EXPECT_ACL(aclInitTensor(tensor, sizes.data(), 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, sizes.data(), 1, nullptr));
  EXPECT_EQ(read_dims(aclGetViewShape, tensor), sizes);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR,
                   aclInitTensor(nullptr, sizes.data(), 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, sizes.data(), 1, nullptr));
}

TEST_F(Objects, ScalarsOfUnknownTypesAreRefused) {
  double value = 1;
  EXPECT_EQ(aclCreateScalar(&value, ACL_STRING), nullptr);
  EXPECT_RECENT_ERROR("a scalar cannot be of type");
  EXPECT_EQ(aclCreateScalar(nullptr, ACL_DOUBLE), nullptr);
  EXPECT_RECENT_ERROR("'value' is null");
}

TEST_F(Objects, ArraysAndListsKnowTheirSizes) {
  const std::vector<float> floats{1, 2, 3};
  const bool bools[] = {true, false};
  uint64_t size = 0;
  EXPECT_ACL(aclGetIntArraySize(int_array({1, 2, 3, 4}), &size));
  EXPECT_EQ(size, 4u);
  aclFloatArray* float_array = aclCreateFloatArray(floats.data(), floats.size());
  EXPECT_ACL(aclGetFloatArraySize(float_array, &size));
  EXPECT_EQ(size, 3u);
  EXPECT_ACL(aclDestroyFloatArray(float_array));
  aclBoolArray* bool_array = aclCreateBoolArray(bools, 2);
  EXPECT_ACL(aclGetBoolArraySize(bool_array, &size));
  EXPECT_EQ(size, 2u);
  EXPECT_ACL(aclDestroyBoolArray(bool_array));
  const aclTensor* tensors[] = {describe(nullptr, {1}).release(), describe(nullptr, {2}).release()};
  EXPECT_ACL(aclGetTensorListSize(TensorListObject(aclCreateTensorList(tensors, 2)), &size));
  EXPECT_EQ(size, 2u);
  const aclScalar* scalars[] = {scalar(1).release()};
  aclScalarList* scalar_list = aclCreateScalarList(scalars, 1);
  EXPECT_ACL(aclGetScalarListSize(scalar_list, &size));
  EXPECT_EQ(size, 1u);
  EXPECT_ACL(aclDestroyScalarList(scalar_list));
}

TEST_F(Objects, NullIsRefusedWithTheNameOfTheArgument) {
  uint64_t size = 0;
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclDestroyTensor(nullptr));
  EXPECT_RECENT_ERROR("'tensor' is null");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclDestroyTensorList(nullptr));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclGetIntArraySize(nullptr, &size));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclGetIntArraySize(int_array({1}), nullptr));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclGetViewShape(nullptr, nullptr, nullptr));
  EXPECT_EQ(aclCreateIntArray(nullptr, 1), nullptr);
  EXPECT_RECENT_ERROR("'value' is null");
}

}  // namespace
}  // namespace softnpu::test
