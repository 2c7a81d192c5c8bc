// Descriptors of the arguments of an aclnn call.
//
//   launch(relu, TensorArg(self), OutputArg(out));     // aten/machinery/launch.h
//
// A descriptor lives for one call: the device copies it in phase one. It owns the tensors that it made itself and borrows all
// others.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <bit>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "acl/symbol.h"
#include "aclnn/acl_meta.h"
#include "core/device/device.h"

namespace torch_npu {

// The device's code of a dtype. Throws TypeError for a dtype that no device has (quantized, bits).
aclDataType acl_dtype(at::ScalarType dtype);

// A new descriptor of a tensor on the current device. With kWrite, a storage that is copied on write is copied first.
enum class Access { kRead, kWrite };
template <Access kAccess>
aclTensor* make_descriptor(const c10::TensorImpl* tensor);

// A tensor that may be missing: undefined, an empty optional, or std::nullopt. It borrows the tensor, so use it for parameters
// only.
class TensorOrNone {
 public:
  TensorOrNone(std::nullopt_t) : tensor_(nullptr) {}
  TensorOrNone(const at::Tensor& tensor) : tensor_(tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr) {}
  TensorOrNone(const std::optional<at::Tensor>& tensor)
      : tensor_(tensor.has_value() && tensor->defined() ? tensor->unsafeGetTensorImpl() : nullptr) {}

  // Null if missing.
  const c10::TensorImpl* impl() const { return tensor_; }

 private:
  const c10::TensorImpl* tensor_;
};

namespace detail {

// The device's codes by c10::ScalarType; -1 for a dtype that it lacks.
extern const std::array<int8_t, static_cast<size_t>(c10::ScalarType::NumOptions)> acl_dtypes;
[[noreturn]] void refuse_dtype(at::ScalarType dtype);

[[gnu::always_inline]] inline bool is_on_current_device(const c10::TensorImpl* tensor) {
  const c10::Device device = tensor->device();
  return device.type() == kDeviceType && device.index() == thread_state().current_device;
}

// Whether it is a conjugated or negated view, whose memory holds other values.
[[gnu::always_inline]] inline bool is_marked(const c10::TensorImpl* tensor) {
  return tensor->key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}));
}

[[gnu::always_inline]] inline bool is_plain(const c10::TensorImpl* tensor) {
  return is_on_current_device(tensor) && !is_marked(tensor);
}

[[gnu::always_inline]] inline aclFormat format_of(size_t rank) {
  constexpr aclFormat kFormats[] = {ACL_FORMAT_ND,  ACL_FORMAT_ND,   ACL_FORMAT_ND,
                                    ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW};
  return rank < std::size(kFormats) ? kFormats[rank] : ACL_FORMAT_ND;
}

}  // namespace detail

inline aclDataType acl_dtype(at::ScalarType dtype) {
  const int8_t name = detail::acl_dtypes[static_cast<size_t>(dtype)];
  if (C10_UNLIKELY(name < 0)) detail::refuse_dtype(dtype);
  return static_cast<aclDataType>(name);
}

template <Access kAccess>
[[gnu::always_inline]] inline aclTensor* make_descriptor(const c10::TensorImpl* tensor) {
  const at::IntArrayRef sizes = tensor->sizes();
  const c10::Storage& storage = tensor->unsafe_storage();
  const auto elements = static_cast<int64_t>(storage.nbytes() >> std::countr_zero(tensor->itemsize()));
  return ACL_FN(aclCreateTensor)(sizes.data(), sizes.size(), acl_dtype(c10::typeMetaToScalarType(tensor->dtype())),
                                 tensor->strides().data(), tensor->storage_offset(), detail::format_of(sizes.size()), &elements,
                                 1, kAccess == Access::kWrite ? storage.mutable_data() : const_cast<void*>(storage.data()));
}

// A tensor that the device reads.
class TensorArg {
 public:
  // A 0-dim CPU tensor is copied to the current device. A conjugated or negated view is resolved. Throws for any other tensor
  // that is not on the current device.
  explicit TensorArg(TensorOrNone tensor) : tensor_(tensor.impl()) {
    if (tensor_ == nullptr) return;
    if (C10_UNLIKELY(!detail::is_plain(tensor_))) read_instead();
    descriptor_ = make_descriptor<Access::kRead>(tensor_);
  }
  explicit TensorArg(const at::Tensor& tensor) : TensorArg(TensorOrNone(tensor)) {}
  ~TensorArg() {
    if (descriptor_ != nullptr) ACL_FN(aclDestroyTensor)(descriptor_);
  }
  TensorArg(const TensorArg&) = delete;
  TensorArg& operator=(const TensorArg&) = delete;

  // Null for a missing tensor.
  aclTensor* get() const { return descriptor_; }
  std::string describe() const;

  // After a call whose output sizes depend on data: gives `tensor` the sizes that the device has set in the descriptor.
  void give_shape_to(const at::Tensor& tensor) const;

 protected:
  enum class Written { kApart, kOverlapping };
  TensorArg(TensorOrNone tensor, Written written) : tensor_(tensor.impl()) {
    if (tensor_ == nullptr) return;
    if (C10_UNLIKELY(!detail::is_plain(tensor_))) refuse_to_write();
    if (C10_UNLIKELY(!tensor_->is_non_overlapping_and_dense()) && written == Written::kApart) refuse_overlap();
    descriptor_ = make_descriptor<Access::kWrite>(tensor_);
  }

 private:
  void read_instead();
  [[noreturn]] void refuse_to_write() const;
  void refuse_overlap() const;

  at::Tensor readable_;  // the copy that the device reads, if one was made
  const c10::TensorImpl* tensor_;
  aclTensor* descriptor_ = nullptr;
};

// A tensor that the device writes. Throws unless it is on the current device, no conjugated or negated view, and has no two
// elements at one address.
class OutputArg : public TensorArg {
 public:
  explicit OutputArg(TensorOrNone tensor) : TensorArg(tensor, Written::kApart) {}
  explicit OutputArg(const at::Tensor& tensor) : OutputArg(TensorOrNone(tensor)) {}
};

// An output that may have several elements at one address. For operators that write one value, or do not define which of several
// values is kept.
class OverlappingOutputArg : public TensorArg {
 public:
  explicit OverlappingOutputArg(TensorOrNone tensor) : TensorArg(tensor, Written::kOverlapping) {}
  explicit OverlappingOutputArg(const at::Tensor& tensor) : OverlappingOutputArg(TensorOrNone(tensor)) {}
};

// A tensor that the call writes only if `written`. Otherwise a lazy copy stays lazy, and elements may share an address.
class StateArg {
 public:
  StateArg(TensorOrNone tensor, bool written) {
    if (written) {
      argument_.emplace<OutputArg>(tensor);
    } else {
      argument_.emplace<TensorArg>(without_overlap(tensor));
    }
  }
  aclTensor* get() const { return of().get(); }
  std::string describe() const { return of().describe(); }

 private:
  const TensorArg& of() const {
    const auto* output = std::get_if<OutputArg>(&argument_);
    return output != nullptr ? *output : std::get<TensorArg>(argument_);
  }
  TensorOrNone without_overlap(TensorOrNone tensor);

  at::Tensor copy_;  // what the device reads instead of elements that share an address
  std::variant<std::monostate, TensorArg, OutputArg> argument_;
};

class TensorListArg {
 public:
  // An undefined tensor is passed as an empty one: the indices of x[:, i] contain such tensors.
  explicit TensorListArg(at::ITensorListRef tensors) : TensorListArg(tensors, Access::kRead) {}
  ~TensorListArg();
  TensorListArg(const TensorListArg&) = delete;
  TensorListArg& operator=(const TensorListArg&) = delete;

  aclTensorList* get() const { return descriptor_; }
  std::string describe() const;

 protected:
  TensorListArg(at::ITensorListRef tensors, Access access);

  size_t size_;

 private:
  at::ITensorListRef tensors_;  // the caller's list, for describe()
  c10::SmallVector<at::Tensor, 2> readable_;
  aclTensorList* descriptor_;
};

class OutputListArg : public TensorListArg {
 public:
  explicit OutputListArg(at::ITensorListRef tensors) : TensorListArg(tensors, Access::kWrite) {}
};

// An empty list is passed as null.
class OptionalTensorListArg : public TensorListArg {
 public:
  using TensorListArg::TensorListArg;
  aclTensorList* get() const { return size_ == 0 ? nullptr : TensorListArg::get(); }
};

class ScalarArg {
 public:
  explicit ScalarArg(const c10::Scalar& scalar) : descriptor_(make(scalar)), scalar_(scalar) {}
  explicit ScalarArg(const std::optional<c10::Scalar>& scalar)
      : descriptor_(scalar.has_value() ? make(*scalar) : nullptr), scalar_(scalar.value_or(c10::Scalar())) {}
  ~ScalarArg() {
    if (descriptor_ != nullptr) ACL_FN(aclDestroyScalar)(descriptor_);
  }
  ScalarArg(const ScalarArg&) = delete;
  ScalarArg& operator=(const ScalarArg&) = delete;

  aclScalar* get() const { return descriptor_; }
  std::string describe() const;

  static aclScalar* make(const c10::Scalar& scalar);

 private:
  aclScalar* descriptor_;
  c10::Scalar scalar_;
};

class ScalarListArg {
 public:
  explicit ScalarListArg(at::ArrayRef<c10::Scalar> scalars);
  ~ScalarListArg();
  ScalarListArg(const ScalarListArg&) = delete;
  ScalarListArg& operator=(const ScalarListArg&) = delete;

  aclScalarList* get() const { return descriptor_; }
  std::string describe() const;

 private:
  size_t size_;
  aclScalarList* descriptor_;
};

// A missing list is passed as null, an empty one as a descriptor of length 0.
class IntArrayArg {
 public:
  explicit IntArrayArg(at::OptionalIntArrayRef values);
  explicit IntArrayArg(at::IntArrayRef values) : IntArrayArg(at::OptionalIntArrayRef(values)) {}
  ~IntArrayArg();
  IntArrayArg(const IntArrayArg&) = delete;
  IntArrayArg& operator=(const IntArrayArg&) = delete;

  aclIntArray* get() const { return descriptor_; }
  std::string describe() const;

 private:
  at::OptionalIntArrayRef values_;
  aclIntArray* descriptor_;
};

class FloatArrayArg {
 public:
  explicit FloatArrayArg(std::optional<at::ArrayRef<double>> values);
  ~FloatArrayArg();
  FloatArrayArg(const FloatArrayArg&) = delete;
  FloatArrayArg& operator=(const FloatArrayArg&) = delete;

  aclFloatArray* get() const { return descriptor_; }
  std::string describe() const;

 private:
  std::optional<at::ArrayRef<double>> values_;
  aclFloatArray* descriptor_;
};

class BoolArrayArg {
 public:
  explicit BoolArrayArg(std::optional<at::ArrayRef<bool>> values);
  ~BoolArrayArg();
  BoolArrayArg(const BoolArrayArg&) = delete;
  BoolArrayArg& operator=(const BoolArrayArg&) = delete;

  aclBoolArray* get() const { return descriptor_; }
  std::string describe() const;

 private:
  std::optional<at::ArrayRef<bool>> values_;
  aclBoolArray* descriptor_;
};

// A number or bool as text for messages. An int8_t is written as a number, not as a character.
template <class Value>
std::string number_text(Value value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<Value>) {
    return c10::str(+value);
  } else {
    static_assert(std::is_floating_point_v<Value>);
    return c10::str(value);
  }
}

// A number or bool, which C passes by value.
template <class Value>
class PlainArg {
 public:
  explicit PlainArg(Value value) : value_(value) {}
  Value get() const { return value_; }
  std::string describe() const { return number_text(value_); }

 private:
  Value value_;
};

class DtypeArg {
 public:
  explicit DtypeArg(at::ScalarType dtype) : dtype_(dtype), value_(acl_dtype(dtype)) {}
  aclDataType get() const { return value_; }
  std::string describe() const { return c10::toString(dtype_); }

 private:
  at::ScalarType dtype_;
  aclDataType value_;
};

// aclnn functions take strings as char*, and do not write them.
class StringArg {
 public:
  explicit StringArg(const char* text) : text_(text) {}
  char* get() const { return const_cast<char*>(text_); }
  std::string describe() const { return text_ == nullptr ? "none" : c10::str('"', text_, '"'); }

 private:
  const char* text_;
};

}  // namespace torch_npu
