#include "ops/objects/objects.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/library.h"

using namespace softnpu::ops;
using softnpu::Status;
using softnpu::text;

namespace {

aclnnStatus null_argument(const char* function, const char* argument) {
  return fail(function, Status(ACLNN_ERR_PARAM_NULLPTR, text("argument '", argument, "' is null")));
}

// Refuses a handle whose object is not live.
template <typename Object>
aclnnStatus refuse(const char* function, const typename Object::Handle* handle, const char* argument) {
  return fail(function, explain<Object>(handle, argument));
}

Status check_dims(const int64_t* values, uint64_t count, const char* argument) {
  if (count > kMaxDimensions) {
    return {ACLNN_ERR_PARAM_INVALID, text("argument '", argument, "' has ", count, " dimensions, more than ", kMaxDimensions)};
  }
  if (count > 0 && values == nullptr) return {ACLNN_ERR_PARAM_NULLPTR, text("argument '", argument, "' is null")};
  const auto negative = uint64_t(std::find_if(values, values + count, [](int64_t value) { return value < 0; }) - values);
  if (negative == count) return {};
  return {ACLNN_ERR_PARAM_INVALID, text("argument '", argument, "' holds ", values[negative], " in position ", negative)};
}

// Fills a usual tensor in one pass. False if a number is negative or large, or if the tensor is empty: then call fill(). Small
// numbers cannot overflow.
[[gnu::always_inline]] inline bool fill_quickly(TensorObject& tensor, const int64_t* view_dims, uint64_t view_dims_num,
                                                aclDataType dtype, const int64_t* strides, int64_t offset, aclFormat format,
                                                const int64_t* storage_dims, uint64_t storage_dims_num, void* address) {
  constexpr uint64_t kSmall = uint64_t{1} << 31;
  if (view_dims_num > TensorObject::kFewDims || storage_dims_num > TensorObject::kFewStorageDims || view_dims == nullptr ||
      strides == nullptr || storage_dims == nullptr) {
    return false;
  }
  tensor.dims.set_size(2 * view_dims_num);
  int64_t* const dims = tensor.dims.data();
  auto bits = uint64_t(offset);  // the bits of all numbers
  bool in_order = true;
  uint64_t count = 1;
  uint64_t reach = 1;
  for (uint64_t i = view_dims_num; i-- > 0;) {
    const auto size = uint64_t(dims[i] = view_dims[i]);
    const auto stride = uint64_t(dims[view_dims_num + i] = strides[i]);
    in_order &= size == 1 || stride == count;
    count *= size;
    reach += (size - 1) * stride;
    bits |= size | stride | count | reach;
  }
  tensor.storage_dims.set_size(storage_dims_num);
  for (uint64_t i = 0; i < storage_dims_num; ++i) bits |= uint64_t(tensor.storage_dims[i] = storage_dims[i]);
  tensor.address = address;
  tensor.offset = offset;
  tensor.dtype = dtype;
  tensor.format = format;
  tensor.ndim = int(view_dims_num);
  tensor.contiguous = in_order;
  tensor.numel = int64_t(count);
  tensor.reach = int64_t(reach);
  return bits < kSmall && count != 0;
}

Status fill(TensorObject& tensor, const int64_t* view_dims, uint64_t view_dims_num, aclDataType dtype, const int64_t* strides,
            int64_t offset, aclFormat format, const int64_t* storage_dims, uint64_t storage_dims_num, void* address) {
  SOFTNPU_RETURN_IF_ERROR(check_dims(view_dims, view_dims_num, "viewDims"));
  if (strides != nullptr) SOFTNPU_RETURN_IF_ERROR(check_dims(strides, view_dims_num, "stride"));
  SOFTNPU_RETURN_IF_ERROR(check_dims(storage_dims, storage_dims_num, "storageDims"));
  if (offset < 0) return {ACLNN_ERR_PARAM_INVALID, text("argument 'offset' is ", offset)};
  tensor.address = address;
  tensor.offset = offset;
  tensor.dtype = dtype;
  tensor.format = format;
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

// False if a Scalar cannot have that type.
bool read_scalar(const void* value, aclDataType dtype, at::Scalar& scalar) {
  const auto set = [&](auto sample) {
    std::memcpy(&sample, value, sizeof sample);
    scalar = sample;
    return true;
  };
  switch (scalar_type_of(dtype)) {
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

// A new array or list of `size` values.
template <typename Array, typename Value>
typename Array::Handle* make_array(const char* function, const Value* values, uint64_t size) {
  if (values == nullptr && size > 0) {
    null_argument(function, "value");
    return nullptr;
  }
  Array* array = nullptr;
  try {
    array = Pool<Array>::take();
    array->values.assign(values, values + size);
    return begin_life(*array);
  } catch (...) {
    if (array != nullptr) Pool<Array>::give(array);
    fail_by_exception(function);
    return nullptr;
  }
}

template <typename Object>
aclnnStatus destroy(const char* function, const typename Object::Handle* handle, const char* argument) {
  Object* object = end_life<Object>(handle);
  if (object == nullptr) [[unlikely]]
    return refuse<Object>(function, handle, argument);
  Pool<Object>::give(object);
  return ACLNN_SUCCESS;
}

// Destroys the list and its live elements. Fails if an element is not live.
template <typename List>
aclnnStatus destroy_list(const char* function, const typename List::Handle* handle) {
  using Item = typename List::Item;
  List* list = end_life<List>(handle);
  if (list == nullptr) return refuse<List>(function, handle, "array");
  Status status;
  for (size_t i = 0; i < list->values.size(); ++i) {
    if (list->values[i] == nullptr) continue;
    if (Item* item = end_life<Item>(list->values[i]); item != nullptr) {
      Pool<Item>::give(item);
    } else if (status.ok()) {
      status = explain<Item>(list->values[i], text("array[", i, "]"));
    }
  }
  Pool<List>::give(list);
  if (status.ok()) return ACLNN_SUCCESS;
  return fail(function, Status(status.code(), text(status.message(), "; the list and its other elements are destroyed now")));
}

// The client frees the array with delete[], as the ABI demands.
aclnnStatus hand_out(const char* function, const aclTensor* handle, c10::IntArrayRef (*part)(const TensorObject&),
                     int64_t** values, uint64_t* count) {
  const auto* tensor = find<TensorObject>(handle);
  if (tensor == nullptr) return refuse<TensorObject>(function, handle, "tensor");
  if (values == nullptr) return null_argument(function, "values");
  if (count == nullptr) return null_argument(function, "count");
  const c10::IntArrayRef source = part(*tensor);
  *values = new (std::nothrow) int64_t[source.size()];
  if (*values == nullptr) return fail(function, Status(ACL_ERROR_BAD_ALLOC, "no host memory for the result"));
  std::copy(source.begin(), source.end(), *values);
  *count = source.size();
  return ACLNN_SUCCESS;
}

template <typename Object, typename Value>
aclnnStatus answer(const char* function, const typename Object::Handle* handle, const char* argument,
                   Value (*read)(const Object&), Value* result) {
  const auto* object = find<Object>(handle);
  if (object == nullptr) return refuse<Object>(function, handle, argument);
  if (result == nullptr) return null_argument(function, "result");
  *result = read(*object);
  return ACLNN_SUCCESS;
}

template <typename Array>
aclnnStatus size_of(const char* function, const typename Array::Handle* handle, const char* argument, uint64_t* size) {
  return answer<Array, uint64_t>(
      function, handle, argument, [](const Array& array) { return uint64_t(array.values.size()); }, size);
}

}  // namespace

void TensorObject::set_dense_sizes(c10::IntArrayRef sizes) {
  const size_t count = sizes.size();
  ndim = int(count);
  dims.resize_for_overwrite(2 * count);
  int64_t stride = 1;
  for (size_t i = count; i-- > 0;) {
    dims[i] = sizes[i];
    dims[count + i] = stride;
    const bool overflows = __builtin_mul_overflow(stride, std::max<int64_t>(sizes[i], 1), &stride);
    if (overflows) stride = std::numeric_limits<int64_t>::max();  // measure() then sets kTooLarge, unless the tensor is empty
  }
  measure();
}

void TensorObject::measure() {
  const int64_t* const sizes = dims.data();
  const int64_t* const strides = sizes + ndim;
  bool overflows = false;
  // In the order of ATen: a size of 0 after an overflow does not make the tensor empty.
  numel = 1;
  for (int i = 0; i < ndim; ++i) overflows |= __builtin_mul_overflow(numel, sizes[i], &numel);
  int64_t bytes = 0;
  overflows |= __builtin_mul_overflow(numel, std::max<int64_t>(item_size_of(dtype), 1), &bytes);
  const bool empty = numel == 0 && !overflows;
  contiguous = true;
  int64_t dense = 1;
  int64_t last = 0;
  for (int i = ndim; i-- > 0 && !empty && !overflows;) {
    int64_t extent = 0;
    contiguous &= sizes[i] == 1 || strides[i] == dense;
    dense *= sizes[i];
    overflows |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &extent) || __builtin_add_overflow(last, extent, &last);
  }
  overflows |= __builtin_add_overflow(last, 1, &last);
  reach = overflows ? kTooLarge : empty ? 0 : last;
}

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  try {
    TensorObject* tensor = Pool<TensorObject>::take();
    if (fill_quickly(*tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData))
        [[likely]]
      return begin_life(*tensor);
    const Status status =
        fill(*tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData);
    if (status.ok()) return begin_life(*tensor);
    Pool<TensorObject>::give(tensor);
    fail("aclCreateTensor", status);
  } catch (...) {
    fail_by_exception("aclCreateTensor");
  }
  return nullptr;
}

aclnnStatus aclInitTensor(aclTensor* handle, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr) {
  auto* tensor = find<TensorObject>(handle);
  if (tensor == nullptr) return refuse<TensorObject>("aclInitTensor", handle, "tensor");
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
    ScalarObject* scalar = Pool<ScalarObject>::take();
    if (read_scalar(value, dataType, scalar->value)) [[likely]]
      return begin_life(*scalar);
    Pool<ScalarObject>::give(scalar);
    fail("aclCreateScalar", Status(ACLNN_ERR_PARAM_INVALID, text("a scalar cannot be of type ", name_of(dataType))));
    return nullptr;
  } catch (...) {
    fail_by_exception("aclCreateScalar");
    return nullptr;
  }
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return make_array<IntArrayObject>("aclCreateIntArray", value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return make_array<FloatArrayObject>("aclCreateFloatArray", value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return make_array<BoolArrayObject>("aclCreateBoolArray", value, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return make_array<TensorListObject>("aclCreateTensorList", value, size);
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return make_array<ScalarListObject>("aclCreateScalarList", value, size);
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy<TensorObject>("aclDestroyTensor", tensor, "tensor"); }
aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy<ScalarObject>("aclDestroyScalar", scalar, "scalar"); }
aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy<IntArrayObject>("aclDestroyIntArray", array, "array"); }
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return destroy<FloatArrayObject>("aclDestroyFloatArray", array, "array");
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return destroy<BoolArrayObject>("aclDestroyBoolArray", array, "array");
}
aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  return destroy_list<TensorListObject>("aclDestroyTensorList", array);
}
aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  return destroy_list<ScalarListObject>("aclDestroyScalarList", array);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return hand_out(
      "aclGetViewShape", tensor, [](const TensorObject& t) { return t.sizes(); }, viewDims, viewDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  return hand_out(
      "aclGetViewStrides", tensor, [](const TensorObject& t) { return t.strides(); }, stridesValue, stridesNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  const auto part = [](const TensorObject& t) { return c10::IntArrayRef(t.storage_dims); };
  return hand_out("aclGetStorageShape", tensor, part, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return answer<TensorObject>(
      "aclGetViewOffset", tensor, "tensor", +[](const TensorObject& t) { return t.offset; }, offset);
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return answer<TensorObject>(
      "aclGetFormat", tensor, "tensor", +[](const TensorObject& t) { return t.format; }, format);
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return answer<TensorObject>(
      "aclGetDataType", tensor, "tensor", +[](const TensorObject& t) { return t.dtype; }, dataType);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return size_of<IntArrayObject>("aclGetIntArraySize", array, "array", size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return size_of<FloatArrayObject>("aclGetFloatArraySize", array, "array", size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return size_of<BoolArrayObject>("aclGetBoolArraySize", array, "array", size);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  return size_of<TensorListObject>("aclGetTensorListSize", tensorList, "tensorList", size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
  return size_of<ScalarListObject>("aclGetScalarListSize", scalarList, "scalarList", size);
}

aclnnStatus aclSetRawTensorAddr(aclTensor* handle, void* addr) {
  auto* tensor = find<TensorObject>(handle);
  if (tensor == nullptr) return refuse<TensorObject>("aclSetRawTensorAddr", handle, "tensor");
  tensor->address = addr;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return answer<TensorObject>(
      "aclGetRawTensorAddr", tensor, "tensor", +[](const TensorObject& t) { return t.address; }, addr);
}

aclnnStatus aclnnInit(const char*) { return ACLNN_SUCCESS; }
aclnnStatus aclnnFinalize() { return ACLNN_SUCCESS; }
