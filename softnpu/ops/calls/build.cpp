// Phase one of a call: executor.h.
#include <utility>

#include "acl/acl_rt.h"
#include "ops/calls/executor.h"
#include "ops/checks/argument_check.h"
#include "ops/objects/recent_allocations.h"

namespace softnpu::ops {

Status locate_view(void* address, const Executor::Place& place, TensorView& view) {
  if (place.bytes == 0) {
    view.data = nullptr;
    return {};
  }
  if (address == nullptr) return {ACLNN_ERR_PARAM_NULLPTR, "its address is null"};
  const void* first = static_cast<std::byte*>(address) + place.offset;
  if (thread_cache().recent_allocations.find(first, size_t(place.bytes), &view.data)) [[likely]]
    return {};
  if (driver()->alias(first, size_t(place.bytes), &view.data) == ACL_SUCCESS) return {};
  const char* reason = aclGetRecentErrMsg();
  return {ACLNN_ERR_PARAM_INVALID, text("its ", place.bytes, " bytes at ", first, " are not usable: ", reason ? reason : "")};
}

Build::Build(const Operation& operation, uint64_t* workspace_size, aclOpExecutor** executor)
    : operation_(operation), workspace_size_(workspace_size), result_(executor) {
  if (driver() == nullptr) {
    status_ = Status(ACLNN_ERR_INNER, "the loaded libascendcl.so is not the one that this libopapi.so belongs to");
    return;
  }
  if (workspace_size == nullptr || executor == nullptr) {
    const char* name = workspace_size == nullptr ? "workspaceSize" : "executor";
    status_ = Status(ACLNN_ERR_PARAM_NULLPTR, softnpu::text("argument '", name, "' is null"));
    return;
  }
  executor_ = Pool<Executor>::take();
  executor_->operation = &operation;
  executor_->owners.store(1, std::memory_order_relaxed);
  executor_->views.resize_for_overwrite(size_t(operation.tensor_count));
  executor_->places.resize_for_overwrite(size_t(operation.tensor_count));
  executor_->scalars.resize(size_t(operation.scalar_count));
}

Build::~Build() {
  if (executor_ != nullptr) recycle(executor_);
}

const ParameterInfo* Build::next() {
  const ParameterInfo& parameter = operation_.parameters[next_parameter_++];
  return status_.ok() ? &parameter : nullptr;
}

bool Build::present(const ParameterInfo& parameter, const void* object) {
  if (object != nullptr) return true;
  if (!parameter.optional) {
    status_ = Status(ACLNN_ERR_PARAM_NULLPTR, softnpu::text("argument '", parameter.name, "' is null"));
  }
  return false;
}

void Build::refuse(aclnnStatus code, const ParameterInfo& parameter, const std::string& reason) {
  status_ = Status(code, softnpu::text("argument '", parameter.name, "': ", reason));
}

template <typename T>
const T* Build::object_of(const ParameterInfo& parameter, const typename T::Handle* handle) {
  if (!present(parameter, handle)) return nullptr;
  const T* object = find<T>(handle);
  if (object == nullptr) status_ = explain<T>(handle, parameter.name);
  return object;
}

template <typename T>
const T* Build::element_of(const ParameterInfo& parameter, const typename T::Handle* handle, size_t number) {
  if (handle == nullptr) {
    if (!parameter.optional_elements) {
      refuse(ACLNN_ERR_PARAM_NULLPTR, parameter, softnpu::text("element ", number, " is null"));
    }
    return nullptr;
  }
  const T* object = find<T>(handle);
  if (object == nullptr) status_ = explain<T>(handle, softnpu::text(parameter.name, "[", number, "]"));
  return object;
}

void Build::describe(const ParameterInfo& parameter, const aclTensor* handle, const TensorObject& tensor, TensorView& view,
                     Executor::Place& place) {
  const int64_t item_size = item_size_of(tensor.dtype);
  if (item_size == 0) {
    return refuse(ACLNN_ERR_PARAM_INVALID, parameter, softnpu::text("the device does not compute in ", name_of(tensor.dtype)));
  }
  if (!is_base_format(tensor.format)) {
    return refuse(ACLNN_ERR_PARAM_INVALID, parameter,
                  softnpu::text("format ", int(tensor.format), " is private; cast it to a base format"));
  }
  const bool too_far = __builtin_mul_overflow(tensor.reach, item_size, &place.bytes) |
                       __builtin_mul_overflow(tensor.offset, item_size, &place.offset);
  if (tensor.reach == TensorObject::kTooLarge || too_far) {
    return refuse(ACLNN_ERR_PARAM_INVALID, parameter,
                  softnpu::text("shape ", tensor.sizes(), " with strides ", tensor.strides(), " and offset ", tensor.offset,
                                " has too many elements or reaches beyond any memory"));
  }
  view.dtype = tensor.dtype;
  view.ndim = tensor.ndim;
  view.contiguous = tensor.contiguous;
  view.numel = tensor.numel;
  place.format = tensor.format;
  place.tensor = handle;
  // Not append(), which calls memcpy: there are few numbers.
  auto& numbers = executor_->numbers;
  const size_t begin = numbers.size();
  const size_t count = tensor.dims.size();
  numbers.resize_for_overwrite(begin + count);
  for (size_t i = 0; i < count; ++i) numbers[begin + i] = tensor.dims[i];
  place.dims = uint32_t(begin);
  if (Status status = locate_view(tensor.address, place, view); !status.ok()) refuse(status.code(), parameter, status.message());
}

void Build::tensor(const aclTensor* handle) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  TensorView& view = executor_->views[size_t(next_tensor_)];
  Executor::Place& place = executor_->places[size_t(next_tensor_)];
  ++next_tensor_;
  if (const auto* tensor = object_of<TensorObject>(*parameter, handle); tensor != nullptr) [[likely]]
    return describe(*parameter, handle, *tensor, view, place);
  view = kAbsentView;
  place = Executor::Place{0, 0, 0, 0, nullptr};
}

void Build::tensors(const aclTensorList* handle) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  const auto* list = object_of<TensorListObject>(*parameter, handle);
  const size_t count = list == nullptr ? 0 : list->values.size();
  executor_->slices.push_back({uint32_t(executor_->views.size()), uint32_t(count), list != nullptr});
  for (size_t i = 0; i < count && status_.ok(); ++i) {
    executor_->views.push_back(kAbsentView);
    executor_->places.push_back(Executor::Place{0, 0, 0, 0, nullptr});
    const auto* tensor = element_of<TensorObject>(*parameter, list->values[i], i);
    if (tensor != nullptr) describe(*parameter, list->values[i], *tensor, executor_->views.back(), executor_->places.back());
  }
}

void Build::scalar(const aclScalar* handle) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  const int number = next_scalar_++;
  if (const auto* scalar = object_of<ScalarObject>(*parameter, handle); scalar != nullptr) [[likely]] {
    executor_->scalars[size_t(number)] = scalar->value;
    return;
  }
  executor_->absent_scalars |= uint64_t(1) << number;
  executor_->scalars[size_t(number)] = false;
}

void Build::scalars(const aclScalarList* handle) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  const auto* list = object_of<ScalarListObject>(*parameter, handle);
  const size_t count = list == nullptr ? 0 : list->values.size();
  executor_->slices.push_back({uint32_t(executor_->scalars.size()), uint32_t(count), list != nullptr});
  for (size_t i = 0; i < count; ++i) {
    const auto* scalar = element_of<ScalarObject>(*parameter, list->values[i], i);
    if (scalar == nullptr) return;
    executor_->scalars.push_back(scalar->value);
  }
}

void Build::integer(int64_t value) {
  if (next() == nullptr) return;
  executor_->values.push_back({.integer = value});
}

void Build::real(double value) {
  if (next() == nullptr) return;
  executor_->values.push_back({.real = value});
}

void Build::text(const char* value) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  const bool given = present(*parameter, value);
  executor_->values.push_back({.integer = given ? int64_t(executor_->strings.size()) : -1});
  if (given) executor_->strings.emplace_back(value);
}

void Build::integers(const aclIntArray* handle) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  const auto* array = object_of<IntArrayObject>(*parameter, handle);
  const size_t count = array == nullptr ? 0 : array->values.size();
  executor_->slices.push_back({uint32_t(executor_->numbers.size()), uint32_t(count), array != nullptr});
  if (array != nullptr) executor_->numbers.append(array->values.begin(), array->values.end());
}

void Build::flags(const aclBoolArray* handle) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  const auto* array = object_of<BoolArrayObject>(*parameter, handle);
  const size_t count = array == nullptr ? 0 : array->values.size();
  executor_->slices.push_back({uint32_t(executor_->numbers.size()), uint32_t(count), array != nullptr});
  if (array != nullptr) executor_->numbers.append(array->values.begin(), array->values.end());
}

void Build::reals(const aclFloatArray* handle) {
  const ParameterInfo* parameter = next();
  if (parameter == nullptr) return;
  const auto* array = object_of<FloatArrayObject>(*parameter, handle);
  const size_t count = array == nullptr ? 0 : array->values.size();
  executor_->slices.push_back({uint32_t(executor_->reals.size()), uint32_t(count), array != nullptr});
  if (array != nullptr) executor_->reals.append(array->values.begin(), array->values.end());
}

aclnnStatus Build::finish() {
  if (status_.ok()) [[likely]] {
    point_at_dims(*executor_);
    status_ = check_arguments(*executor_);
  }
  if (!status_.ok()) return fail(operation_.task.name, status_);
  int64_t largest = 0;
  for (const TensorView& view : executor_->views) largest = std::max(largest, view.numel);
  executor_->cost = uint64_t(largest);
  *workspace_size_ = 0;
  *result_ = begin_life(*std::exchange(executor_, nullptr));
  return ACLNN_SUCCESS;
}

}  // namespace softnpu::ops
