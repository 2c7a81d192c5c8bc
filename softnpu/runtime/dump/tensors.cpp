#include "runtime/dump/tensors.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace softnpu {
namespace {

constinit std::atomic<SoftnpuOperatorDescriber> g_describer{nullptr};

template <size_t kBytes>
void copy_items(std::byte* out, const std::byte* from, ptrdiff_t stride, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) std::memcpy(out + i * kBytes, from + ptrdiff_t(i) * stride, kBytes);
}

void copy_run(std::byte* out, const std::byte* from, size_t item, ptrdiff_t stride, uint64_t count) {
  if (stride == ptrdiff_t(item)) {
    std::memcpy(out, from, item * count);
    return;
  }
  switch (item) {
    case 1:
      return copy_items<1>(out, from, stride, count);
    case 2:
      return copy_items<2>(out, from, stride, count);
    case 4:
      return copy_items<4>(out, from, stride, count);
    case 8:
      return copy_items<8>(out, from, stride, count);
    default:
      for (uint64_t i = 0; i < count; ++i) std::memcpy(out + i * item, from + ptrdiff_t(i) * stride, item);
  }
}

}  // namespace

SoftnpuOperatorDescriber operator_describer() { return g_describer.load(std::memory_order_acquire); }

std::string dtype_name(int32_t dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return "float32";
    case ACL_FLOAT16:
      return "float16";
    case ACL_BF16:
      return "bfloat16";
    case ACL_DOUBLE:
      return "float64";
    case ACL_INT8:
      return "int8";
    case ACL_INT16:
      return "int16";
    case ACL_INT32:
      return "int32";
    case ACL_INT64:
      return "int64";
    case ACL_UINT8:
      return "uint8";
    case ACL_UINT16:
      return "uint16";
    case ACL_UINT32:
      return "uint32";
    case ACL_UINT64:
      return "uint64";
    case ACL_BOOL:
      return "bool";
    case ACL_COMPLEX32:
      return "complex32";
    case ACL_COMPLEX64:
      return "complex64";
    case ACL_COMPLEX128:
      return "complex128";
    case ACL_HIFLOAT8:
      return "hifloat8";
    case ACL_FLOAT8_E5M2:
      return "float8_e5m2";
    case ACL_FLOAT8_E4M3FN:
      return "float8_e4m3fn";
    case ACL_FLOAT8_E8M0:
      return "float8_e8m0";
    default:
      return "type " + std::to_string(dtype);
  }
}

uint64_t count_of(const SoftnpuOperatorTensor& tensor) {
  uint64_t count = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) count *= uint64_t(tensor.sizes[i]);
  return count;
}

std::optional<uint64_t> bytes_of(const SoftnpuOperatorTensor& tensor) {
  uint64_t bytes = tensor.bytes;
  if (count_of(tensor) == 0) return 0;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (__builtin_mul_overflow(bytes, uint64_t(tensor.sizes[i]), &bytes) || bytes > uint64_t{1} << 62) return std::nullopt;
  }
  return bytes;
}

std::byte* element_at(const SoftnpuOperatorTensor& tensor, uint64_t number) {
  int64_t offset = 0;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    const auto size = uint64_t(tensor.sizes[i]);
    offset += int64_t(number % size) * tensor.strides[i];
    number /= size;
  }
  return static_cast<std::byte*>(tensor.data) + offset * int64_t(tensor.bytes);
}

ElementReader::ElementReader(const SoftnpuOperatorTensor& tensor)
    : next_(static_cast<const std::byte*>(tensor.data)), item_(tensor.bytes), left_(count_of(tensor)) {
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    const Dimension dimension{uint64_t(tensor.sizes[i]), ptrdiff_t(tensor.strides[i]) * ptrdiff_t(item_)};
    if (dimension.size == 1) continue;
    const bool joins = !dimensions_.empty() && dimensions_.back().stride == ptrdiff_t(dimension.size) * dimension.stride;
    if (joins) {
      dimensions_.back().size *= dimension.size;
      dimensions_.back().stride = dimension.stride;
    } else {
      dimensions_.push_back(dimension);
    }
  }
  if (dimensions_.empty()) dimensions_.push_back({1, ptrdiff_t(item_)});
}

void ElementReader::advance(uint64_t count) {
  dimensions_.back().at += count;
  next_ += ptrdiff_t(count) * dimensions_.back().stride;
  for (size_t i = dimensions_.size(); i-- > 0 && dimensions_[i].at == dimensions_[i].size;) {
    next_ -= ptrdiff_t(dimensions_[i].size) * dimensions_[i].stride;
    dimensions_[i].at = 0;
    if (i == 0) return;
    ++dimensions_[i - 1].at;
    next_ += dimensions_[i - 1].stride;
  }
}

size_t ElementReader::read(std::byte* out, size_t bytes) {
  const uint64_t wanted = std::min<uint64_t>(left_, std::max<uint64_t>(1, bytes / item_));
  for (uint64_t done = 0; done < wanted;) {
    const Dimension& inner = dimensions_.back();
    const uint64_t count = std::min(inner.size - inner.at, wanted - done);
    copy_run(out + done * item_, next_, item_, inner.stride, count);
    advance(count);
    done += count;
  }
  left_ -= wanted;
  return wanted * item_;
}

}  // namespace softnpu

void softnpuDescribeOperators(SoftnpuOperatorDescriber describe) {
  softnpu::g_describer.store(describe, std::memory_order_release);
}
