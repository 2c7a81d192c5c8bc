#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "aten/ops/cuda_alias.h"

namespace torch_npu {
namespace {

const at::Device kFirst(at::DeviceType::PrivateUse1, 0);

TEST(CudaAlias, TensorsThatAreAskedForOnCudaAreOnNpu) {
  const CudaAlias alias;
  EXPECT_EQ(at::ones({2}, at::kCUDA).device(), kFirst);
  EXPECT_EQ(at::arange(3, at::Device("cuda:0")).device(), kFirst);
  EXPECT_EQ(at::ones({2}).to(at::kCUDA).device(), kFirst);
  EXPECT_EQ(at::ones({2}).device(), at::kCPU);
}

TEST(CudaAlias, WhatIsOnNpuIsNotCopied) {
  const CudaAlias alias;
  const at::Tensor tensor = at::ones({2}, kFirst);
  EXPECT_TRUE(tensor.to(at::kCUDA).is_same(tensor));
  EXPECT_TRUE(tensor.to(at::Device("cuda:0"), at::kFloat).is_same(tensor));
}

// Where torch has CUDA, such a tensor is made; elsewhere that is an error.
bool is_made_on_npu() {
  try {
    return at::empty({2}, at::kCUDA).device() == kFirst;
  } catch (const c10::Error&) {
    return false;
  }
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

TEST(CudaAlias, BeingOutOfMemoryIsSaidInTheWordsOfCudaToo) {
  {
    const CudaAlias alias;
    EXPECT_TRUE(words_when_out_of_memory().starts_with("CUDA out of memory. ")) << words_when_out_of_memory();
    EXPECT_NE(words_when_out_of_memory().find("NPU out of memory. Tried to allocate "), std::string::npos);
  }
  EXPECT_TRUE(words_when_out_of_memory().starts_with("NPU out of memory. ")) << words_when_out_of_memory();
}

}  // namespace
}  // namespace torch_npu
