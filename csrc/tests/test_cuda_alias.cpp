#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "aten/ops/cuda_alias.h"

namespace torch_npu {
namespace {

const at::Device kFirst(at::DeviceType::PrivateUse1, 0);

TEST(CudaAlias, FactoriesForCudaReturnNpuTensors) {
  const CudaAlias alias;
  EXPECT_EQ(at::ones({2}, at::kCUDA).device(), kFirst);
  EXPECT_EQ(at::arange(3, at::Device("cuda:0")).device(), kFirst);
  EXPECT_EQ(at::ones({2}).to(at::kCUDA).device(), kFirst);
  EXPECT_EQ(at::ones({2}).device(), at::kCPU);
}

TEST(CudaAlias, ToCudaDoesNotCopyAnNpuTensor) {
  const CudaAlias alias;
  const at::Tensor tensor = at::ones({2}, kFirst);
  EXPECT_TRUE(tensor.to(at::kCUDA).is_same(tensor));
  EXPECT_TRUE(tensor.to(at::Device("cuda:0"), at::kFloat).is_same(tensor));
}

// Without an alias, torch creates a CUDA tensor or throws if it has no CUDA.
bool is_made_on_npu() {
  try {
    return at::empty({2}, at::kCUDA).device() == kFirst;
  } catch (const c10::Error&) {
    return false;
  }
}

TEST(CudaAlias, NamesOfCudaDevicesBecomeNamesOfNpus) {
  EXPECT_EQ(name_without_cuda("cuda"), "npu");
  EXPECT_EQ(name_without_cuda("cuda:1"), "npu:1");
  for (const char* other : {"", "cpu", "npu:1", "cudas", "cuda1"}) EXPECT_EQ(name_without_cuda(other), std::nullopt) << other;
}

TEST(CudaAlias, EndsWithTheObject) {
  {
    const CudaAlias alias;
    EXPECT_TRUE(is_made_on_npu());
  }
  EXPECT_FALSE(is_made_on_npu());
}

std::string words_when_out_of_memory() {
  try {
    at::empty({int64_t{1} << 58}, kFirst);
  } catch (const c10::OutOfMemoryError& error) {
    return error.what();
  }
  return {};
}

TEST(CudaAlias, OutOfMemoryErrorsStartWithTheTextOfCuda) {
  {
    const CudaAlias alias;
    EXPECT_TRUE(words_when_out_of_memory().starts_with("CUDA out of memory. ")) << words_when_out_of_memory();
    EXPECT_NE(words_when_out_of_memory().find("NPU out of memory. Tried to allocate "), std::string::npos);
  }
  EXPECT_TRUE(words_when_out_of_memory().starts_with("NPU out of memory. ")) << words_when_out_of_memory();
}

}  // namespace
}  // namespace torch_npu
