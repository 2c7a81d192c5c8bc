#include <gtest/gtest.h>

#include <cstdlib>

// A small device of known size, on which running out is quick.
int main(int argc, char** argv) {
  setenv("TORCH_NPU_LIBRARY_PATH", "softnpu", 1);
  setenv("SOFTNPU_DEVICE_COUNT", "2", 1);
  setenv("SOFTNPU_DEVICE_MEMORY", "256M", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
