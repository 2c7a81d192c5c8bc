// Kernels that a C++ program registers for operators of ATen with torch::Library, as TORCH_LIBRARY_IMPL does.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/library.h>

namespace torch_npu {
namespace {

const at::Device kFirst(at::DeviceType::PrivateUse1, 0);

at::Tensor sevens(const at::Tensor& self) { return at::empty_like(self).fill_(7); }

// Registers a kernel of aten::sinc for `key` until the object is destroyed.
std::unique_ptr<torch::Library> register_sevens(c10::DispatchKey key) {
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  library->impl("sinc", TORCH_FN(sevens));
  return library;
}

float sinc(bool requires_grad) {
  const at::Tensor half = at::full({1}, 0.5, kFirst).requires_grad_(requires_grad);
  return at::sinc(half).item<float>();
}

class UserKernel : public testing::TestWithParam<c10::DispatchKey> {};

TEST_P(UserKernel, IsUsedInEveryModeUntilItIsRemoved) {
  const float own = sinc(/*requires_grad=*/false);
  EXPECT_NE(own, 7);
  for (int round = 0; round < 2; ++round) {
    {
      const auto library = register_sevens(GetParam());
      for (const bool gradients : {true, false}) {
        const at::AutoGradMode mode(gradients);
        EXPECT_EQ(sinc(/*requires_grad=*/false), 7);
        EXPECT_EQ(sinc(/*requires_grad=*/true), 7);
      }
      const c10::InferenceMode inference;
      EXPECT_EQ(sinc(/*requires_grad=*/false) == 7, GetParam() == c10::DispatchKey::PrivateUse1);
    }
    EXPECT_EQ(sinc(/*requires_grad=*/false), own);
    EXPECT_EQ(sinc(/*requires_grad=*/true), own);
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, UserKernel,
                         testing::Values(c10::DispatchKey::PrivateUse1, c10::DispatchKey::AutogradPrivateUse1,
                                         c10::DispatchKey::Autograd),
                         [](const auto& param) { return c10::toString(param.param); });

}  // namespace
}  // namespace torch_npu
