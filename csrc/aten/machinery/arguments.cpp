#include "aten/machinery/arguments.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/empty.h>

#include "aten/machinery/device_scope.h"
#include "core/device/device.h"
#include "core/graph/graph.h"

namespace torch_npu {

namespace {

void check_device(bool fine, const c10::TensorImpl* tensor) {
  TORCH_CHECK(fine, "Expected all tensors to be on the same device, but found at least two devices, ",
              npu_device(detail::thread_state().current_device), " and ", tensor->device(), "!");
}

at::Tensor shared(const c10::TensorImpl* tensor) {
  return at::Tensor::wrap_tensor_impl(
      c10::intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(tensor)));
}

at::Tensor made_plain(const c10::TensorImpl* tensor) {
  const at::Tensor borrowed = shared(tensor);
  if (detail::is_on_current_device(tensor)) return borrowed.resolve_conj().resolve_neg();
  check_device(tensor->is_cpu() && tensor->dim() == 0, tensor);
  const auto options = borrowed.options().device(npu_device(detail::thread_state().current_device));
  if (captures_exist()) return at::empty({}, options).fill_(borrowed.item());  // a copy would wait, which no capture allows
  return at::_to_copy(borrowed, options);
}

std::string describe_tensor(const c10::TensorImpl* tensor) {
  if (tensor == nullptr) return "none";
  return c10::str(c10::typeMetaToScalarType(tensor->dtype()), tensor->sizes(),
                  tensor->is_contiguous() ? "" : c10::str(" strides ", tensor->strides()));
}

}  // namespace

constexpr std::array<int8_t, static_cast<size_t>(c10::ScalarType::NumOptions)> detail::acl_dtypes = [] {
  std::array<int8_t, static_cast<size_t>(c10::ScalarType::NumOptions)> table{};
  table.fill(-1);
  const auto set = [&](c10::ScalarType dtype, aclDataType name) {
    table[static_cast<size_t>(dtype)] = static_cast<int8_t>(name);
  };
  using enum c10::ScalarType;
  set(Float, ACL_FLOAT), set(Half, ACL_FLOAT16), set(BFloat16, ACL_BF16), set(Double, ACL_DOUBLE);
  set(Char, ACL_INT8), set(Short, ACL_INT16), set(Int, ACL_INT32), set(Long, ACL_INT64), set(Bool, ACL_BOOL);
  set(Byte, ACL_UINT8), set(UInt16, ACL_UINT16), set(UInt32, ACL_UINT32), set(UInt64, ACL_UINT64);
  set(ComplexHalf, ACL_COMPLEX32), set(ComplexFloat, ACL_COMPLEX64), set(ComplexDouble, ACL_COMPLEX128);
  set(Float8_e5m2, ACL_FLOAT8_E5M2), set(Float8_e4m3fn, ACL_FLOAT8_E4M3FN), set(Float8_e8m0fnu, ACL_FLOAT8_E8M0);
  set(Float8_e5m2fnuz, ACL_SOFT_FLOAT8_E5M2FNUZ), set(Float8_e4m3fnuz, ACL_SOFT_FLOAT8_E4M3FNUZ);
  return table;
}();

void detail::refuse_dtype(at::ScalarType dtype) { TORCH_CHECK_TYPE(false, "npu has no dtype ", dtype); }

void TensorArg::read_instead() {
  readable_ = made_plain(tensor_);
  tensor_ = readable_.unsafeGetTensorImpl();
}

void TensorArg::refuse_to_write() const {
  check_device(detail::is_on_current_device(tensor_), tensor_);
  TORCH_CHECK(false, "This operator cannot write to a conjugated or negated view. Please clone() the tensor first.");
}

void TensorArg::refuse_overlap() const { at::assert_no_internal_overlap(const_cast<c10::TensorImpl*>(tensor_)); }

std::string TensorArg::describe() const { return describe_tensor(tensor_); }

void TensorArg::give_shape_to(const at::Tensor& tensor) const {
  int64_t* sizes = nullptr;
  uint64_t rank = 0;
  ACL_CALL(aclGetViewShape, descriptor_, &sizes, &rank);
  const std::unique_ptr<int64_t[]> owner(sizes);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(at::IntArrayRef(sizes, rank));
}

TensorOrNone StateArg::without_overlap(TensorOrNone tensor) {
  const c10::TensorImpl* impl = tensor.impl();
  if (impl == nullptr || impl->is_non_overlapping_and_dense()) return tensor;
  copy_ = shared(impl).contiguous();
  return copy_;
}

TensorListArg::TensorListArg(at::ITensorListRef tensors, Access access) : size_(tensors.size()), tensors_(tensors) {
  c10::SmallVector<const aclTensor*, 32> handles;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      const int64_t nothing = 0;
      handles.push_back(ACL_FN(aclCreateTensor)(&nothing, 1, ACL_INT64, &nothing, 0, ACL_FORMAT_ND, &nothing, 1, nullptr));
    } else if (C10_LIKELY(detail::is_plain(tensor.unsafeGetTensorImpl()))) {
      const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
      handles.push_back(access == Access::kWrite ? make_descriptor<Access::kWrite>(impl) : make_descriptor<Access::kRead>(impl));
    } else {
      readable_.push_back(made_plain(tensor.unsafeGetTensorImpl()));
      handles.push_back(make_descriptor<Access::kRead>(readable_.back().unsafeGetTensorImpl()));
    }
  }
  descriptor_ = ACL_FN(aclCreateTensorList)(handles.data(), handles.size());
}

TensorListArg::~TensorListArg() { ACL_FN(aclDestroyTensorList)(descriptor_); }

std::string TensorListArg::describe() const {
  constexpr size_t kMostShown = 8;
  std::string text;
  size_t shown = 0;
  for (const at::Tensor& tensor : tensors_) {
    if (shown++ == kMostShown) {
      text += ", ...";
      break;
    }
    text += (text.empty() ? "" : ", ") + describe_tensor(tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr);
  }
  return c10::str(size_, " tensors [", text, "]");
}

aclScalar* ScalarArg::make(const c10::Scalar& scalar) {
  if (scalar.isFloatingPoint()) {
    double value = scalar.toDouble();
    return ACL_FN(aclCreateScalar)(&value, ACL_DOUBLE);
  }
  if (scalar.isBoolean()) {
    bool value = scalar.toBool();
    return ACL_FN(aclCreateScalar)(&value, ACL_BOOL);
  }
  if (scalar.isComplex()) {
    c10::complex<double> value = scalar.toComplexDouble();
    return ACL_FN(aclCreateScalar)(&value, ACL_COMPLEX128);
  }
  if (scalar.type() == at::kUInt64) {
    uint64_t value = scalar.toUInt64();
    return ACL_FN(aclCreateScalar)(&value, ACL_UINT64);
  }
  int64_t value = scalar.toLong();
  return ACL_FN(aclCreateScalar)(&value, ACL_INT64);
}

std::string ScalarArg::describe() const { return descriptor_ == nullptr ? "none" : c10::str(scalar_); }

ScalarListArg::ScalarListArg(at::ArrayRef<c10::Scalar> scalars) : size_(scalars.size()) {
  c10::SmallVector<const aclScalar*, 32> handles;
  for (const c10::Scalar& scalar : scalars) handles.push_back(ScalarArg::make(scalar));
  descriptor_ = ACL_FN(aclCreateScalarList)(handles.data(), handles.size());
}

ScalarListArg::~ScalarListArg() { ACL_FN(aclDestroyScalarList)(descriptor_); }

std::string ScalarListArg::describe() const { return c10::str(size_, " scalars"); }

IntArrayArg::IntArrayArg(at::OptionalIntArrayRef values)
    : values_(values), descriptor_(values.has_value() ? ACL_FN(aclCreateIntArray)(values->data(), values->size()) : nullptr) {}

IntArrayArg::~IntArrayArg() {
  if (descriptor_ != nullptr) ACL_FN(aclDestroyIntArray)(descriptor_);
}

std::string IntArrayArg::describe() const { return values_.has_value() ? c10::str(*values_) : "none"; }

FloatArrayArg::FloatArrayArg(std::optional<at::ArrayRef<double>> values) : values_(values), descriptor_(nullptr) {
  if (!values.has_value()) return;
  const std::vector<float> floats(values->begin(), values->end());
  descriptor_ = ACL_FN(aclCreateFloatArray)(floats.data(), floats.size());
}

FloatArrayArg::~FloatArrayArg() {
  if (descriptor_ != nullptr) ACL_FN(aclDestroyFloatArray)(descriptor_);
}

std::string FloatArrayArg::describe() const { return values_.has_value() ? c10::str(*values_) : "none"; }

BoolArrayArg::BoolArrayArg(std::optional<at::ArrayRef<bool>> values)
    : values_(values), descriptor_(values.has_value() ? ACL_FN(aclCreateBoolArray)(values->data(), values->size()) : nullptr) {}

BoolArrayArg::~BoolArrayArg() {
  if (descriptor_ != nullptr) ACL_FN(aclDestroyBoolArray)(descriptor_);
}

std::string BoolArrayArg::describe() const { return values_.has_value() ? c10::str(*values_) : "none"; }

}  // namespace torch_npu
