// Helpers for the tests of operators: tensors on the device and the two phases of a call.
//
//   Operand a({2, 3}, {1, 2, 3, 4, 5, 6});
//   Operand out({2, 3});
//   ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
//   EXPECT_EQ(out.read(stream), (Floats{...}));
#pragma once

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "testing/acl_fixture.h"

namespace softnpu::test {

// Like AclFixture, but set up before the members of a test are constructed, and torn down after their destruction.
class OpsFixture : public AclFixture {
 protected:
  OpsFixture() { AclFixture::SetUp(); }
  ~OpsFixture() override { AclFixture::TearDown(); }
  void SetUp() final {}
  void TearDown() final {}
};

using Sizes = std::vector<int64_t>;
using Floats = std::vector<float>;

inline int64_t count_of(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies()); }

// Owns an object of the operator library. Converts to the plain pointer.
template <typename Object, aclnnStatus (*kDestroy)(const Object*)>
class OwnedObject {
 public:
  explicit OwnedObject(Object* object) : object_(object) { EXPECT_NE(object, nullptr) << recent_error(); }
  OwnedObject(OwnedObject&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ~OwnedObject() {
    if (object_ != nullptr) kDestroy(object_);
  }

  operator Object*() const { return object_; }
  Object* get() const { return object_; }
  [[nodiscard]] Object* release() { return std::exchange(object_, nullptr); }

 private:
  Object* object_;
};

using TensorObject = OwnedObject<aclTensor, aclDestroyTensor>;
using ScalarObject = OwnedObject<aclScalar, aclDestroyScalar>;
using IntArrayObject = OwnedObject<aclIntArray, aclDestroyIntArray>;
using TensorListObject = OwnedObject<aclTensorList, aclDestroyTensorList>;

inline TensorObject describe(void* address, const Sizes& sizes, aclDataType dtype = ACL_FLOAT, const Sizes& strides = {},
                             int64_t offset = 0, aclFormat format = ACL_FORMAT_ND) {
  const int64_t storage = count_of(sizes);
  return TensorObject(aclCreateTensor(sizes.data(), sizes.size(), dtype, strides.empty() ? nullptr : strides.data(), offset,
                                      format, &storage, 1, address));
}

inline ScalarObject scalar(double value) { return ScalarObject(aclCreateScalar(&value, ACL_DOUBLE)); }
inline IntArrayObject int_array(const Sizes& values) { return IntArrayObject(aclCreateIntArray(values.data(), values.size())); }

// A dense float32 tensor in device memory of its own.
class Operand {
 public:
  explicit Operand(Sizes sizes, const Floats& values = {})
      : sizes_(std::move(sizes)),
        buffer_(make_device_buffer(sizeof(float) * size_t(std::max<int64_t>(count_of(sizes_), 1)))),
        tensor_(describe(buffer_, sizes_)) {
    if (!values.empty()) write(values);
  }

  operator aclTensor*() const { return tensor_; }
  void* address() const { return buffer_; }
  void write(const Floats& values) {
    EXPECT_ACL(aclrtMemcpy(buffer_, bytes(values), values.data(), bytes(values), ACL_MEMCPY_HOST_TO_DEVICE));
  }
  // The values after all tasks of the stream.
  Floats read(aclrtStream stream) const {
    EXPECT_ACL(aclrtSynchronizeStream(stream));
    Floats values(size_t(count_of(sizes_)));
    if (values.empty()) return values;
    EXPECT_ACL(aclrtMemcpy(values.data(), bytes(values), buffer_, bytes(values), ACL_MEMCPY_DEVICE_TO_HOST));
    return values;
  }

 private:
  static size_t bytes(const Floats& values) { return values.size() * sizeof(float); }

  Sizes sizes_;
  DeviceBuffer buffer_;
  TensorObject tensor_;
};

// Calls body(0) and body(1) on two threads that start together.
template <typename Body>
void run_at_once(const Body& body) {
  std::atomic<int> waiting{2};
  const auto run = [&](int number) {
    --waiting;
    while (waiting > 0) std::this_thread::yield();
    body(number);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

// Both phases of a call. Returns the first failure.
template <typename First, typename... Arguments>
aclnnStatus call(First first, aclnnStatus (*second)(void*, uint64_t, aclOpExecutor*, aclrtStream), aclrtStream stream,
                 const Arguments&... arguments) {
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  if (const aclnnStatus status = first(arguments..., &bytes, &executor); status != ACLNN_SUCCESS) return status;
  DeviceBuffer workspace = bytes > 0 ? make_device_buffer(bytes) : DeviceBuffer();
  return second(workspace, bytes, executor, stream);
}
#define CALL(function, stream, ...) ::softnpu::test::call(function##GetWorkspaceSize, function, stream, __VA_ARGS__)

// Only phase one. The result is null after a failure.
template <typename First, typename... Arguments>
aclOpExecutor* prepare(First first, const Arguments&... arguments) {
  uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_ACL(first(arguments..., &bytes, &executor));
  return executor;
}

}  // namespace softnpu::test
