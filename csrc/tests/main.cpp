#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/temp_dir.h"

// The tests run on two small devices, so that they run out of memory quickly. A ledger of their own hides other processes.
int main(int argc, char** argv) {
  const softnpu::test::TempDir ledger;
  setenv("TORCH_NPU_LIBRARY_PATH", "softnpu", 1);
  setenv("SOFTNPU_DEVICE_COUNT", "2", 1);
  setenv("SOFTNPU_DEVICE_MEMORY", "256M", 1);
  setenv("SOFTNPU_LEDGER_DIR", ledger.path().c_str(), 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
