#include "ops/objects.h"

#include <algorithm>
#include <cstring>

#include "ops/library.h"

using softnpu::Status;
using softnpu::text;
using softnpu::ops::fail;
using softnpu::ops::fail_by_exception;
using softnpu::ops::Pool;

namespace {

aclnnStatus null_argument(const char* function, const char* argument) {
  return fail(function, Status(ACLNN_ERR_PARAM_NULLPTR, text("argument '", argument, "' is null")));
}

Status check_dims(const int64_t* values, uint64_t count, const char* argument) {
  if (count > softnpu::ops::kMaxDimensions) {
    return {ACLNN_ERR_PARAM_INVALID,
            text("argument '", argument, "' has ", count, " dimensions, more than ", softnpu::ops::kMaxDimensions)};
  }
  if (count > 0 && values == nullptr) return {ACLNN_ERR_PARAM_NULLPTR, text("argument '", argument, "' is null")};
  const auto negative = uint64_t(std::find_if(values, values + count, [](int64_t value) { return value < 0; }) - values);
  if (negative == count) return {};
  return {ACLNN_ERR_PARAM_INVALID, text("argument '", argument, "' holds ", values[negative], " in position ", negative)};
}

// The usual tensor in one pass; false if anything about it is unusual.
[[gnu::always_inline]] inline bool fill_quickly(aclTensor& tensor, const int64_t* view_dims, uint64_t view_dims_num,
                                                aclDataType dtype, const int64_t* strides, int64_t offset, aclFormat format,
                                                const int64_t* storage_dims, uint64_t storage_dims_num, void* address) {
  constexpr uint64_t kFew = 8;
  if (view_dims_num > kFew || storage_dims_num > kFew || view_dims == nullptr || strides == nullptr || storage_dims == nullptr) {
    return false;
  }
  tensor.dims.resize_for_overwrite(2 * view_dims_num);
  int64_t* const dims = tensor.dims.data();
  int64_t signs = offset;
  bool overflows = false;
  bool in_order = true;
  int64_t count = 1;
  int64_t reach = 1;
  for (uint64_t i = view_dims_num; i-- > 0;) {
    const int64_t size = dims[i] = view_dims[i];
    const int64_t stride = dims[view_dims_num + i] = strides[i];
    int64_t extent = 0;
    signs |= size | stride;
    in_order &= size == 1 || stride == count;
    overflows |= __builtin_mul_overflow(count, size, &count);
    overflows |= __builtin_mul_overflow(size - 1, stride, &extent) || __builtin_add_overflow(reach, extent, &reach);
  }
  tensor.storage_dims.resize_for_overwrite(storage_dims_num);
  for (uint64_t i = 0; i < storage_dims_num; ++i) signs |= tensor.storage_dims[i] = storage_dims[i];
  tensor.address = address;
  tensor.offset = offset;
  tensor.dtype = dtype;
  tensor.format = format;
  tensor.ndim = int(view_dims_num);
  tensor.contiguous = in_order;
  tensor.numel = count;
  tensor.reach = count == 0 ? 0 : reach;
  return signs >= 0 && !overflows;
}

Status fill(aclTensor& tensor, const int64_t* view_dims, uint64_t view_dims_num, aclDataType dtype, const int64_t* strides,
            int64_t offset, aclFormat format, const int64_t* storage_dims, uint64_t storage_dims_num, void* address) {
  tensor.address = address;
  tensor.offset = offset;
  tensor.dtype = dtype;
  tensor.format = format;
  SOFTNPU_RETURN_IF_ERROR(check_dims(view_dims, view_dims_num, "viewDims"));
  if (strides != nullptr) SOFTNPU_RETURN_IF_ERROR(check_dims(strides, view_dims_num, "stride"));
  SOFTNPU_RETURN_IF_ERROR(check_dims(storage_dims, storage_dims_num, "storageDims"));
  if (offset < 0) return {ACLNN_ERR_PARAM_INVALID, text("argument 'offset' is ", offset)};
  tensor.storage_dims.assign(storage_dims, storage_dims + storage_dims_num);
  if (strides == nullptr) {
    tensor.set_dense_sizes({view_dims, size_t(view_dims_num)});
    return {};
  }
  tensor.ndim = int(view_dims_num);
  tensor.dims.resize_for_overwrite(2 * view_dims_num);
  std::copy_n(view_dims, view_dims_num, tensor.dims.begin());
  std::copy_n(strides, view_dims_num, tensor.dims.begin() + view_dims_num);
  tensor.measure();
  return {};
}

// False where a scalar cannot be of that type.
bool read_scalar(const void* value, aclDataType dtype, at::Scalar& scalar) {
  const auto set = [&](auto sample) {
    std::memcpy(&sample, value, sizeof sample);
    scalar = sample;
    return true;
  };
  switch (softnpu::ops::scalar_type_of(dtype)) {
    case at::ScalarType::Double:
      return set(double());
    case at::ScalarType::Long:
      return set(int64_t());
    case at::ScalarType::Bool:
      return set(bool());
    case at::ScalarType::Float:
      return set(float());
    case at::ScalarType::Half:
      return set(at::Half());
    case at::ScalarType::BFloat16:
      return set(at::BFloat16());
    case at::ScalarType::Int:
      return set(int32_t());
    case at::ScalarType::Short:
      return set(int16_t());
    case at::ScalarType::Char:
      return set(int8_t());
    case at::ScalarType::Byte:
      return set(uint8_t());
    case at::ScalarType::UInt16:
      return set(uint16_t());
    case at::ScalarType::UInt32:
      return set(uint32_t());
    case at::ScalarType::UInt64:
      return set(uint64_t());
    case at::ScalarType::ComplexDouble:
      return set(c10::complex<double>());
    case at::ScalarType::ComplexFloat:
      return set(c10::complex<float>());
    default:
      return false;
  }
}

// A new array object holding `size` values.
template <typename Array, typename Value>
Array* make_array(const char* function, const Value* values, uint64_t size) {
  if (values == nullptr && size > 0) {
    null_argument(function, "value");
    return nullptr;
  }
  try {
    Array* array = Pool<Array>::take();
    if constexpr (requires { array->values; }) {
      array->values.assign(values, values + size);
    } else {
      array->items.assign(values, values + size);
    }
    return array;
  } catch (...) {
    fail_by_exception(function);
    return nullptr;
  }
}

template <typename Object>
aclnnStatus destroy(const char* function, const Object* object, const char* argument) {
  if (object == nullptr) return null_argument(function, argument);
  Pool<Object>::give(const_cast<Object*>(object));
  return ACLNN_SUCCESS;
}

template <typename Object, typename List>
aclnnStatus destroy_list(const char* function, const List* list) {
  if (list == nullptr) return null_argument(function, "array");
  for (const Object* item : list->items) {
    if (item != nullptr) Pool<Object>::give(const_cast<Object*>(item));
  }
  return destroy(function, list, "array");
}

// Clients free what they get with delete[]; that is the contract of these functions.
aclnnStatus hand_out(const char* function, const aclTensor* tensor, c10::IntArrayRef (*part)(const aclTensor&), int64_t** values,
                     uint64_t* count) {
  if (tensor == nullptr) return null_argument(function, "tensor");
  if (values == nullptr) return null_argument(function, "values");
  if (count == nullptr) return null_argument(function, "count");
  const c10::IntArrayRef source = part(*tensor);
  *values = new (std::nothrow) int64_t[source.size()];
  if (*values == nullptr) return fail(function, Status(ACL_ERROR_BAD_ALLOC, "no host memory for the result"));
  std::copy(source.begin(), source.end(), *values);
  *count = source.size();
  return ACLNN_SUCCESS;
}

template <typename Value>
aclnnStatus answer(const char* function, const void* object, Value value, Value* result) {
  if (object == nullptr) return null_argument(function, "object");
  if (result == nullptr) return null_argument(function, "result");
  *result = value;
  return ACLNN_SUCCESS;
}

}  // namespace

void aclTensor::set_dense_sizes(c10::IntArrayRef sizes) {
  const size_t count = sizes.size();
  ndim = int(count);
  dims.resize_for_overwrite(2 * count);
  int64_t stride = 1;
  for (size_t i = count; i-- > 0;) {
    dims[i] = sizes[i];
    dims[count + i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  measure();
}

void aclTensor::measure() {
  const int64_t* const sizes = dims.data();
  const int64_t* const strides = sizes + ndim;
  bool overflows = false;
  bool in_order = true;
  int64_t count = 1;
  int64_t last = 0;
  for (int i = ndim; i-- > 0;) {
    int64_t extent = 0;
    in_order &= sizes[i] == 1 || strides[i] == count;
    overflows |= __builtin_mul_overflow(count, sizes[i], &count);
    overflows |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &extent) || __builtin_add_overflow(last, extent, &last);
  }
  overflows |= __builtin_add_overflow(last, 1, &last);
  contiguous = in_order;
  numel = count;
  reach = count == 0 ? 0 : overflows ? kTooFar : last;
}

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  try {
    aclTensor* tensor = Pool<aclTensor>::take();
    if (fill_quickly(*tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData))
        [[likely]]
      return tensor;
    const Status status =
        fill(*tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData);
    if (status.ok()) [[likely]]
      return tensor;
    Pool<aclTensor>::give(tensor);
    fail("aclCreateTensor", status);
  } catch (...) {
    fail_by_exception("aclCreateTensor");
  }
  return nullptr;
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr) {
  if (tensor == nullptr) return null_argument("aclInitTensor", "tensor");
  try {
    const Status status =
        fill(*tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorDataAddr);
    return status.ok() ? ACLNN_SUCCESS : fail("aclInitTensor", status);
  } catch (...) {
    return fail_by_exception("aclInitTensor");
  }
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  if (value == nullptr) {
    null_argument("aclCreateScalar", "value");
    return nullptr;
  }
  try {
    aclScalar* scalar = Pool<aclScalar>::take();
    if (read_scalar(value, dataType, scalar->value)) [[likely]]
      return scalar;
    Pool<aclScalar>::give(scalar);
    fail("aclCreateScalar",
         Status(ACLNN_ERR_PARAM_INVALID, text("a scalar cannot be of type ", softnpu::ops::name_of(dataType))));
    return nullptr;
  } catch (...) {
    fail_by_exception("aclCreateScalar");
    return nullptr;
  }
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return make_array<aclIntArray>("aclCreateIntArray", value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return make_array<aclFloatArray>("aclCreateFloatArray", value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return make_array<aclBoolArray>("aclCreateBoolArray", value, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return make_array<aclTensorList>("aclCreateTensorList", value, size);
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return make_array<aclScalarList>("aclCreateScalarList", value, size);
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy("aclDestroyTensor", tensor, "tensor"); }
aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy("aclDestroyScalar", scalar, "scalar"); }
aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy("aclDestroyIntArray", array, "array"); }
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) { return destroy("aclDestroyFloatArray", array, "array"); }
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) { return destroy("aclDestroyBoolArray", array, "array"); }
aclnnStatus aclDestroyTensorList(const aclTensorList* array) { return destroy_list<aclTensor>("aclDestroyTensorList", array); }
aclnnStatus aclDestroyScalarList(const aclScalarList* array) { return destroy_list<aclScalar>("aclDestroyScalarList", array); }

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return hand_out(
      "aclGetViewShape", tensor, [](const aclTensor& t) { return t.sizes(); }, viewDims, viewDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  return hand_out(
      "aclGetViewStrides", tensor, [](const aclTensor& t) { return t.strides(); }, stridesValue, stridesNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  const auto part = [](const aclTensor& t) { return c10::IntArrayRef(t.storage_dims); };
  return hand_out("aclGetStorageShape", tensor, part, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return answer("aclGetViewOffset", tensor, tensor ? tensor->offset : 0, offset);
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return answer("aclGetFormat", tensor, tensor ? tensor->format : ACL_FORMAT_UNDEFINED, format);
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return answer("aclGetDataType", tensor, tensor ? tensor->dtype : ACL_DT_UNDEFINED, dataType);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return answer("aclGetIntArraySize", array, array ? uint64_t(array->values.size()) : 0, size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return answer("aclGetFloatArraySize", array, array ? uint64_t(array->values.size()) : 0, size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return answer("aclGetBoolArraySize", array, array ? uint64_t(array->values.size()) : 0, size);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  return answer("aclGetTensorListSize", tensorList, tensorList ? uint64_t(tensorList->items.size()) : 0, size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return answer("aclGetScalarListSize", scalarList, scalarList ? uint64_t(scalarList->items.size()) : 0, size);
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  if (tensor == nullptr) return null_argument("aclSetRawTensorAddr", "tensor");
  tensor->address = addr;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return answer("aclGetRawTensorAddr", tensor, tensor ? tensor->address : nullptr, addr);
}

aclnnStatus aclnnInit(const char*) { return ACLNN_SUCCESS; }
aclnnStatus aclnnFinalize() { return ACLNN_SUCCESS; }
