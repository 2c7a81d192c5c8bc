// The arguments of aclnn functions: the objects behind the handles aclTensor, aclScalar, and those of arrays and lists
// (handle.h).
//
//   const TensorObject* tensor = find<TensorObject>(handle);
//   if (tensor != nullptr && tensor->numel == 0) ...
//
// The client creates, owns and destroys them. It may destroy them as soon as phase two has returned, while the kernel still runs:
// phase one therefore copies what the kernel needs (executor.h). One thread at a time uses an object.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include "aclnn/acl_meta.h"
#include "ops/objects/dtype.h"
#include "ops/objects/pool.h"

namespace softnpu::ops {

// A tensor as kernels see it. For an absent tensor, kAbsentView.
struct TensorView {
  void* data;  // the first element, in the address space of kernels; may be null if numel is 0
  aclDataType dtype;
  int ndim;
  bool contiguous;  // dense and in order
  const int64_t* sizes;
  const int64_t* strides;  // in elements, never negative
  int64_t numel;
};
inline constexpr TensorView kAbsentView{nullptr, ACL_DT_UNDEFINED, 0, true, nullptr, nullptr, 0};

inline constexpr uint64_t kMaxDimensions = 128;

// Whether sizes and strides describe memory in that format. The other formats are private layouts of the hardware.
inline bool is_base_format(aclFormat format) {
  constexpr auto bit = [](aclFormat one) { return uint64_t{1} << one; };
  constexpr uint64_t kBase = bit(ACL_FORMAT_ND) | bit(ACL_FORMAT_NCHW) | bit(ACL_FORMAT_NHWC) | bit(ACL_FORMAT_NCDHW) |
                             bit(ACL_FORMAT_NDHWC) | bit(ACL_FORMAT_NCL);
  return format == ACL_FORMAT_UNDEFINED || (format >= 0 && format < 64 && (kBase >> format & 1));
}

struct alignas(64) TensorObject : ObjectOf<aclTensor, ObjectKind::kTensor> {
  void* address = nullptr;  // of the storage, in the address space of the client
  int64_t offset = 0;       // of the first element, in elements
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  int ndim = 0;
  bool contiguous = true;
  int64_t numel = 1;
  int64_t reach = 1;  // elements from the first to the last; 0 if empty, kTooLarge if the count of elements or bytes overflows
  static constexpr uint64_t kFewDims = 6;
  static constexpr uint64_t kFewStorageDims = 4;
  c10::SmallVector<int64_t, 2 * kFewDims> dims;  // sizes, then strides
  c10::SmallVector<int64_t, kFewStorageDims> storage_dims;

  static constexpr int64_t kTooLarge = -1;

  c10::IntArrayRef sizes() const { return {dims.data(), size_t(ndim)}; }
  c10::IntArrayRef strides() const { return {dims.data() + ndim, size_t(ndim)}; }

  // Sets the sizes, and the strides of a dense tensor.
  void set_dense_sizes(c10::IntArrayRef sizes);
  // Computes `contiguous`, `numel` and `reach`. To be called after each change of `dims`.
  void measure();
};

struct alignas(64) ScalarObject : ObjectOf<aclScalar, ObjectKind::kScalar> {
  at::Scalar value;
};

struct alignas(64) IntArrayObject : ObjectOf<aclIntArray, ObjectKind::kIntArray> {
  c10::SmallVector<int64_t, 8> values;
};

struct alignas(64) FloatArrayObject : ObjectOf<aclFloatArray, ObjectKind::kFloatArray> {
  c10::SmallVector<float, 8> values;
};

struct alignas(64) BoolArrayObject : ObjectOf<aclBoolArray, ObjectKind::kBoolArray> {
  c10::SmallVector<bool, 8> values;
};

// Destroying a list destroys its elements. The client may have destroyed an element before.
struct alignas(64) TensorListObject : ObjectOf<aclTensorList, ObjectKind::kTensorList> {
  using Item = TensorObject;

  c10::SmallVector<const aclTensor*, 8> values;
};

struct alignas(64) ScalarListObject : ObjectOf<aclScalarList, ObjectKind::kScalarList> {
  using Item = ScalarObject;

  c10::SmallVector<const aclScalar*, 8> values;
};

}  // namespace softnpu::ops
