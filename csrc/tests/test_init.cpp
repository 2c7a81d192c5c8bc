// A C++ program without Python.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/libs/init_npu.h"

namespace {

TEST(Init, NamesTheDeviceAndMakesItCurrent) {
  torch_npu::init_npu("npu:1");
  EXPECT_EQ(c10_npu::current_device(), 1);
  EXPECT_EQ(at::Device("npu").type(), at::kPrivateUse1);
  torch_npu::init_npu();
  EXPECT_EQ(c10_npu::current_device(), 0);
  const at::Tensor sum = at::add(at::ones({3}, at::Device("npu:0")), 1);
  torch::npu::synchronize(0);
  EXPECT_TRUE(at::equal(sum.cpu(), at::full({3}, 2.0F)));
}

TEST(Init, RefusesOtherDevices) {
  torch_npu::init_npu();
  EXPECT_THROW(torch_npu::init_npu(9), c10::Error);
  EXPECT_THROW(torch_npu::init_npu(at::Device(at::kCPU)), c10::Error);
  EXPECT_EQ(c10_npu::current_device(), 0);
  EXPECT_NE(c10_npu::SetDevice(9), ACL_SUCCESS);
}

TEST(Init, AFinalizedDeviceCanBeUsedAgain) {
  torch_npu::init_npu();
  at::ones({1000}, at::Device("npu:0"));
  torch_npu::finalize_npu();
  EXPECT_TRUE(at::equal(at::ones({2}, at::Device("npu:0")).cpu(), at::ones({2})));
}

}  // namespace
