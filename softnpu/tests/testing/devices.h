// Helpers for tests that use several devices.
#pragma once

#include "testing/acl_fixture.h"

namespace softnpu::test {

inline uint32_t device_count() {
  uint32_t count = 0;
  EXPECT_ACL(aclrtGetDeviceCount(&count));
  return count;
}

inline int32_t current_device() {
  int32_t device = -1;
  EXPECT_ACL(aclrtGetDevice(&device));
  return device;
}

// Skips its tests where there is one device.
class TwoDevicesTest : public AclFixture {
 protected:
  void SetUp() override {
    AclFixture::SetUp();
    if (device_count() < 2) GTEST_SKIP() << "needs two devices";
  }
};

}  // namespace softnpu::test
