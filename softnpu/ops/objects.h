// What aclnn functions take: the objects behind aclTensor, aclScalar, the arrays and the lists, which are handles (see handle.h).
//
// A client makes them, owns them and destroys them as soon as phase two has returned, while the kernel may still run: phase one
// therefore copies what it needs (see executor.h). One thread uses an object at a time.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include "aclnn/acl_meta.h"
#include "ops/dtype.h"
#include "ops/pool.h"

namespace softnpu::ops {

// A tensor as kernels see it. An absent one has dtype ACL_DT_UNDEFINED, no data and no dimensions.
struct TensorView {
  void* data;  // the first element, in the kernels' address space; may be null where numel is 0
  aclDataType dtype;
  int ndim;
  bool contiguous;  // dense and in order
  const int64_t* sizes;
  const int64_t* strides;  // in elements, none negative
  int64_t numel;
};
inline constexpr TensorView kAbsentView{nullptr, ACL_DT_UNDEFINED, 0, true, nullptr, nullptr, 0};

inline constexpr uint64_t kMaxDimensions = 128;

// Whether memory in that format is as dims and strides say; the others are layouts of the hardware.
inline bool is_base_format(aclFormat format) {
  constexpr auto bit = [](aclFormat one) { return uint64_t{1} << one; };
  constexpr uint64_t kBase = bit(ACL_FORMAT_ND) | bit(ACL_FORMAT_NCHW) | bit(ACL_FORMAT_NHWC) | bit(ACL_FORMAT_NCDHW) |
                             bit(ACL_FORMAT_NDHWC) | bit(ACL_FORMAT_NCL);
  return format == ACL_FORMAT_UNDEFINED || (format >= 0 && format < 64 && (kBase >> format & 1));
}

struct alignas(64) TensorObject : ObjectOf<aclTensor, ObjectKind::kTensor> {
  void* address = nullptr;  // of the storage, as the client knows it
  int64_t offset = 0;       // of the first element, in elements
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  int ndim = 0;
  bool contiguous = true;
  int64_t numel = 1;
  int64_t reach = 1;  // elements from the first to the end of the last; 0 if empty, kTooLarge if elements or bytes overflow
  static constexpr uint64_t kFewDims = 6;
  static constexpr uint64_t kFewStorageDims = 4;
  c10::SmallVector<int64_t, 2 * kFewDims> dims;  // sizes, then strides
  c10::SmallVector<int64_t, kFewStorageDims> storage_dims;

  static constexpr int64_t kTooLarge = -1;

  c10::IntArrayRef sizes() const { return {dims.data(), size_t(ndim)}; }
  c10::IntArrayRef strides() const { return {dims.data() + ndim, size_t(ndim)}; }

  // Gives the tensor a new shape over the same elements, dense and in order.
  void set_dense_sizes(c10::IntArrayRef sizes);
  // Finds `contiguous`, `numel` and `reach` after a change of `dims`.
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

// Destroying a list destroys its elements. They are handles: an element may be gone.
struct alignas(64) TensorListObject : ObjectOf<aclTensorList, ObjectKind::kTensorList> {
  using Item = TensorObject;

  c10::SmallVector<const aclTensor*, 8> values;
};

struct alignas(64) ScalarListObject : ObjectOf<aclScalarList, ObjectKind::kScalarList> {
  using Item = ScalarObject;

  c10::SmallVector<const aclScalar*, 8> values;
};

}  // namespace softnpu::ops
