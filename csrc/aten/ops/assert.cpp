// Assertions on values in device memory. They do not wait: the next synchronising call throws the message of one that failed.
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

void assert_nonzero(const at::Tensor& self, const std::string& message) {
  TORCH_CHECK(self.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
  TORCH_CHECK(self.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous");
  const DeviceScope scope(self);
  call::aclnnSoftAssert(self, message.c_str());
}

void assert_async(const at::Tensor& self) { assert_nonzero(self, "Expected Tensor with single nonzero value, but got zero"); }

void assert_async_message(const at::Tensor& self, std::string_view message) {
  assert_nonzero(self, message.empty() ? "Assertion is failed" : std::string(message));
}

// Compiled graphs order assertions by their tokens.
at::Tensor functional_assert_async(const at::Tensor& self, std::string_view message, const at::Tensor& token) {
  assert_async_message(self, message);
  return token.clone();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_assert_async", TORCH_FN(assert_async));
  m.impl("_assert_async.msg", TORCH_FN(assert_async_message));
  m.impl("_functional_assert_async.msg", TORCH_FN(functional_assert_async));
}

}  // namespace torch_npu
