// The arguments of operators: objects return their attributes; wrong attributes are refused, and so are handles of destroyed
// objects and garbage.
#include <array>
#include <functional>
#include <set>
#include <thread>

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

aclFloatArray* make_float_array() {
  const float value = 1;
  return aclCreateFloatArray(&value, 1);
}

aclBoolArray* make_bool_array() {
  const bool value = true;
  return aclCreateBoolArray(&value, 1);
}

aclTensorList* make_tensor_list(const std::vector<const aclTensor*>& tensors) {
  return aclCreateTensorList(tensors.data(), tensors.size());
}

aclScalarList* make_scalar_list(const std::vector<const aclScalar*>& scalars) {
  return aclCreateScalarList(scalars.data(), scalars.size());
}

TEST_F(Objects, TensorReturnsItsAttributes) {
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

TEST_F(Objects, TensorHasZeroToHundredTwentyEightDimensions) {
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

TEST_F(Objects, RefusedInitTensorDoesNotChangeTheTensor) {
  const TensorObject tensor = describe(nullptr, {2, 3});
  const Sizes bad{-1};
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID,
                   aclInitTensor(tensor, bad.data(), 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, bad.data(), 1, nullptr));
  aclDataType dtype = ACL_DT_UNDEFINED;
  EXPECT_ACL(aclGetDataType(tensor, &dtype));
  EXPECT_EQ(dtype, ACL_FLOAT);
  EXPECT_EQ(read_dims(aclGetViewShape, tensor), (Sizes{2, 3}));
}

// Destroys an object twice.
template <typename Object>
void destroy_twice(Object* object, aclnnStatus (*destroy)(const Object*), const std::string& words) {
  ASSERT_NE(object, nullptr) << recent_error();
  EXPECT_ACL(destroy(object));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, destroy(object));
  EXPECT_RECENT_ERROR(words + " that was destroyed already");
}

TEST_F(Objects, DestroyingTwiceIsRefused) {
  destroy_twice(describe(nullptr, {2}).release(), aclDestroyTensor, "aclDestroyTensor: argument 'tensor' is an aclTensor");
  destroy_twice(scalar(1).release(), aclDestroyScalar, "aclDestroyScalar: argument 'scalar' is an aclScalar");
  destroy_twice(int_array({1}).release(), aclDestroyIntArray, "aclDestroyIntArray: argument 'array' is an aclIntArray");
  destroy_twice(make_float_array(), aclDestroyFloatArray, "aclDestroyFloatArray: argument 'array' is an aclFloatArray");
  destroy_twice(make_bool_array(), aclDestroyBoolArray, "aclDestroyBoolArray: argument 'array' is an aclBoolArray");
  destroy_twice(make_tensor_list({}), aclDestroyTensorList, "aclDestroyTensorList: argument 'array' is an aclTensorList");
  destroy_twice(make_scalar_list({}), aclDestroyScalarList, "aclDestroyScalarList: argument 'array' is an aclScalarList");
}

TEST_F(Objects, HandleOfADestroyedTensorNeverNamesAnother) {
  aclTensor* const gone = describe(nullptr, {2}).release();
  EXPECT_ACL(aclDestroyTensor(gone));
  const TensorObject next = describe(nullptr, {3});
  const TensorObject after_next = describe(nullptr, {4});
  EXPECT_NE(next.get(), gone);
  EXPECT_NE(next.get(), after_next.get());
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(gone));
  EXPECT_EQ(read_dims(aclGetViewShape, next), Sizes{3}) << "destroying one tensor changed another";
}

TEST_F(Objects, DestroyedTensorIsRefusedByAllFunctions) {
  aclTensor* const gone = describe(nullptr, {2}).release();
  EXPECT_ACL(aclDestroyTensor(gone));
  int64_t* values = nullptr;
  uint64_t count = 0;
  int64_t offset = 0;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  aclDataType dtype = ACL_DT_UNDEFINED;
  void* address = nullptr;
  const Sizes sizes{5};
  const std::vector<std::function<aclnnStatus()>> calls{
      [&] { return aclGetViewShape(gone, &values, &count); },
      [&] { return aclGetViewStrides(gone, &values, &count); },
      [&] { return aclGetStorageShape(gone, &values, &count); },
      [&] { return aclGetViewOffset(gone, &offset); },
      [&] { return aclGetFormat(gone, &format); },
      [&] { return aclGetDataType(gone, &dtype); },
      [&] { return aclGetRawTensorAddr(gone, &address); },
      [&] { return aclSetRawTensorAddr(gone, nullptr); },
      [&] { return aclInitTensor(gone, sizes.data(), 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, sizes.data(), 1, nullptr); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, calls[i]()) << "call " << i;
    EXPECT_RECENT_ERROR("argument 'tensor' is an aclTensor that was destroyed already");
  }
  EXPECT_EQ(values, nullptr);
}

TEST_F(Objects, DestroyedArraysAndListsHaveNoSize) {
  uint64_t size = 0;
  aclIntArray* const ints = int_array({1}).release();
  EXPECT_ACL(aclDestroyIntArray(ints));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclGetIntArraySize(ints, &size));
  aclTensorList* const list = make_tensor_list({});
  EXPECT_ACL(aclDestroyTensorList(list));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclGetTensorListSize(list, &size));
  EXPECT_RECENT_ERROR("argument 'tensorList' is an aclTensorList that was destroyed already");
}

TEST_F(Objects, GarbageIsRefused) {
  const TensorObject live = describe(nullptr, {2});
  alignas(64) static char bytes[4096] = {};
  const std::array<const void*, 6> garbage{bytes,
                                           bytes + 1,
                                           reinterpret_cast<void*>(1),
                                           reinterpret_cast<void*>(~uintptr_t(0)),
                                           reinterpret_cast<const char*>(live.get()) + 1,
                                           reinterpret_cast<void*>(~uintptr_t(7))};
  uint64_t size = 0;
  for (const void* pointer : garbage) {
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(static_cast<const aclTensor*>(pointer)));
    EXPECT_RECENT_ERROR("aclDestroyTensor: argument 'tensor'");
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyScalar(static_cast<const aclScalar*>(pointer)));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensorList(static_cast<const aclTensorList*>(pointer)));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyScalarList(static_cast<const aclScalarList*>(pointer)));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclGetIntArraySize(static_cast<const aclIntArray*>(pointer), &size));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclGetFloatArraySize(static_cast<const aclFloatArray*>(pointer), &size));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclGetBoolArraySize(static_cast<const aclBoolArray*>(pointer), &size));
  }
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(reinterpret_cast<const aclTensor*>(bytes)));
  EXPECT_RECENT_ERROR("is not an aclTensor of this operator library");
}

TEST_F(Objects, ObjectOfAnotherKindIsRefused) {
  const ScalarObject number = scalar(1);
  const void* const pointer = number.get();
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(static_cast<const aclTensor*>(pointer)));
  EXPECT_RECENT_ERROR("argument 'tensor' is an aclScalar, but an aclTensor is needed");
}

TEST_F(Objects, DestroyListNamesElementsThatWereDestroyedBefore) {
  aclTensor* const first = describe(nullptr, {1}).release();
  aclTensor* const second = describe(nullptr, {2}).release();
  aclTensorList* const list = make_tensor_list({first, second, nullptr});
  EXPECT_ACL(aclDestroyTensor(first));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensorList(list));
  EXPECT_RECENT_ERROR("argument 'array[0]' is an aclTensor that was destroyed already");
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(second)) << "elements after a bad one were not destroyed";
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensorList(list));
}

TEST_F(Objects, ElementTwiceInAListIsDestroyedOnce) {
  const aclTensor* const tensor = describe(nullptr, {1}).release();
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensorList(make_tensor_list({tensor, tensor})));
  EXPECT_RECENT_ERROR("argument 'array[1]'");
  const aclScalar* const number = scalar(1).release();
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyScalarList(make_scalar_list({number, number})));
  EXPECT_RECENT_ERROR("argument 'array[1]'");
  const TensorObject next = describe(nullptr, {1});
  const TensorObject after_next = describe(nullptr, {1});
  EXPECT_NE(next.get(), after_next.get());
}

TEST_F(Objects, ElementOfTwoListsIsDestroyedOnce) {
  const aclTensor* const tensor = describe(nullptr, {1}).release();
  aclTensorList* const one = make_tensor_list({tensor});
  aclTensorList* const other = make_tensor_list({tensor});
  EXPECT_ACL(aclDestroyTensorList(one));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(tensor));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyTensorList(other));
  EXPECT_RECENT_ERROR("the list and its other elements are destroyed now");
}

TEST_F(Objects, ManyObjectsOfManyThreadsAreDifferent) {
  constexpr int kMany = 3000;
  for (int round = 0; round < 2; ++round) {
    std::array<std::vector<aclTensor*>, 2> made;
    std::vector<std::thread> threads;
    for (auto& own : made) {
      threads.emplace_back([&own] {
        for (int i = 0; i < kMany; ++i) own.push_back(describe(nullptr, {i}).release());
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<aclTensor*> all;
    for (const auto& own : made) all.insert(own.begin(), own.end());
    EXPECT_EQ(all.size(), 2u * kMany);
    for (const auto& own : made) {
      for (int i = 0; i < kMany; ++i) {
        ASSERT_EQ(read_dims(aclGetViewShape, own[size_t(i)]), Sizes{i});
        ASSERT_ACL(aclDestroyTensor(own[size_t(i)]));
      }
    }
  }
}

TEST_F(Objects, OneOfTwoThreadsDestroysATensor) {
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds; ++round) {
    aclTensor* const tensor = describe(nullptr, {1}).release();
    std::array<aclnnStatus, 2> codes{};
    std::array<aclTensor*, 2> next{};
    run_at_once([&](int thread) {
      codes[size_t(thread)] = aclDestroyTensor(tensor);
      next[size_t(thread)] = describe(nullptr, {1}).release();
    });
    ASSERT_EQ((codes[0] == ACLNN_SUCCESS) + (codes[1] == ACLNN_SUCCESS), 1);
    ASSERT_EQ(codes[0] + codes[1], ACLNN_ERR_PARAM_INVALID);
    ASSERT_NE(next[0], next[1]);
    for (const aclTensor* made : next) ASSERT_ACL(aclDestroyTensor(made));
  }
}

}  // namespace
}  // namespace softnpu::test
