#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "acl/visible_devices.h"

namespace torch_npu::acl {
namespace {

std::string list() {
  const char* const value = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  return value == nullptr ? "unset" : value;
}

class VisibleDevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    follow_visible_devices_of_cuda(true);
  }
  void TearDown() override {
    follow_visible_devices_of_cuda(false);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
  }

  static std::string list_for(const char* of_cuda) {
    setenv("CUDA_VISIBLE_DEVICES", of_cuda, 1);
    const VisibleDevices visible;
    return list();
  }
};

TEST_F(VisibleDevicesTest, TheFirstItemThatIsNoNumberEndsTheList) {
  EXPECT_EQ(list_for("1,2"), "1,2");
  EXPECT_EQ(list_for("2, 0"), "2, 0");
  EXPECT_EQ(list_for("0,-1,2"), "0");
  EXPECT_EQ(list_for("0,,2"), "0");
  EXPECT_EQ(list_for("-1"), "");
  EXPECT_EQ(list_for(""), "");
}

TEST_F(VisibleDevicesTest, AListOfUuidsIsIgnored) {
  EXPECT_EQ(list_for("GPU-8932f937,GPU-2"), "unset");
  EXPECT_EQ(list_for("MIG-GPU-8932f937"), "unset");
}

TEST_F(VisibleDevicesTest, TheListIsRemovedAtTheEndOfTheScope) {
  list_for("1");
  EXPECT_EQ(list(), "unset");
}

TEST_F(VisibleDevicesTest, TheVariableOfAscendWins) {
  setenv("ASCEND_RT_VISIBLE_DEVICES", "3", 1);
  EXPECT_EQ(list_for("1"), "3");
  EXPECT_EQ(list(), "3");
}

TEST_F(VisibleDevicesTest, TheVariableOfCudaIsIgnoredUnlessSwitchedOn) {
  follow_visible_devices_of_cuda(false);
  EXPECT_EQ(list_for("1"), "unset");
}

}  // namespace
}  // namespace torch_npu::acl
