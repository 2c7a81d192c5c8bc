// What aclnn functions take: the objects behind aclTensor, aclScalar, the arrays and the lists.
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
  const int64_t* sizes;
  const int64_t* strides;  // in elements, none negative
  int64_t numel;
};

inline constexpr uint64_t kMaxDimensions = 64;

}  // namespace softnpu::ops

struct aclTensor {
  void* address = nullptr;  // of the storage, as the client knows it
  int64_t offset = 0;       // of the first element, in elements
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  int ndim = 0;
  c10::SmallVector<int64_t, 12> dims;  // sizes, then strides
  c10::SmallVector<int64_t, 4> storage_dims;

  c10::IntArrayRef sizes() const { return {dims.data(), size_t(ndim)}; }
  c10::IntArrayRef strides() const { return {dims.data() + ndim, size_t(ndim)}; }

  // Gives the tensor a new shape over the same elements, dense and in order.
  void set_dense_sizes(c10::IntArrayRef sizes);
};

struct aclScalar {
  at::Scalar value;
};

struct aclIntArray {
  c10::SmallVector<int64_t, 8> values;
};

struct aclFloatArray {
  c10::SmallVector<float, 8> values;
};

struct aclBoolArray {
  c10::SmallVector<bool, 8> values;
};

// Destroying a list destroys its elements.
struct aclTensorList {
  c10::SmallVector<const aclTensor*, 8> items;
};

struct aclScalarList {
  c10::SmallVector<const aclScalar*, 8> items;
};
