#include "runtime/checks/wrong_value.h"

#include <cmath>
#include <cstring>

#include "acl/acl_base.h"
#include "runtime/base/float16.h"
#include "runtime/dump/tensors.h"

namespace softnpu {
namespace {

template <typename Real>
Real wrong_real(Real x) {
  if (!std::isfinite(x)) return 0;
  return std::abs(x) < 1 ? x + 1 : -x;
}

template <typename Word, typename Change>
void change(std::byte* element, Change change) {
  Word word{};
  std::memcpy(&word, element, sizeof word);
  word = change(word);
  std::memcpy(element, &word, sizeof word);
}

void change_element(std::byte* element, int32_t dtype) {
  switch (dtype) {
    case ACL_FLOAT:
    case ACL_COMPLEX64:
      return change<float>(element, wrong_real<float>);
    case ACL_DOUBLE:
    case ACL_COMPLEX128:
      return change<double>(element, wrong_real<double>);
    case ACL_FLOAT16:
    case ACL_COMPLEX32:
      return change<uint16_t>(element, [](uint16_t bits) { return half_from_float(wrong_real(float_from_half(bits))); });
    case ACL_BF16:
      return change<uint16_t>(element, [](uint16_t bits) { return bfloat16_from_float(wrong_real(float_from_bfloat16(bits))); });
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return change<uint8_t>(element, [](uint8_t bits) { return uint8_t(bits ^ 0x40); });
    default:  // integers are little-endian; a bool is one byte, 0 or 1
      return change<uint8_t>(element, [](uint8_t bits) { return uint8_t(bits ^ 1); });
  }
}

}  // namespace

void make_wrong(SoftnpuOperatorDescriber describe, const void* payload) {
  bool is_done = false;
  for_each_tensor(describe, payload, [&](const SoftnpuOperatorTensor& tensor) {
    if (is_done || !(tensor.flags & SOFTNPU_TENSOR_WRITTEN) || count_of(tensor) == 0) return;
    change_element(element_at(tensor, count_of(tensor) / 2), tensor.dtype);
    is_done = true;
  });
}

}  // namespace softnpu
