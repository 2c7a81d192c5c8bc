// One test per sentence of all_work.h and late_errors.h.
#include <gtest/gtest.h>

#include <future>

#include "core/device/late_errors.h"
#include "core/graph/graph.h"
#include "core/memory/allocator.h"
#include "core/stream/all_work.h"
#include "core/stream/wait.h"
#include "gate.h"

namespace torch_npu {
namespace {

std::exception_ptr failure_of(const char* text) {
  return std::make_exception_ptr(c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text));
}

std::string text_of_synchronize() {
  try {
    synchronize_device(0);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return {};
}

TEST(AllWork, WaitIncludesEveryStreamOfEveryDevice) {
  const c10::DeviceIndex last = static_cast<c10::DeviceIndex>(device_count() - 1);
  for (const NPUStream stream : {getDefaultNPUStream(0), getNPUStreamFromPool(), getNPUStreamFromPool(true, last)}) {
    Gate gate(stream);
    std::future<void> waiting = std::async(std::launch::async, wait_for_all_work);
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(2 * detail::kSlice)), std::future_status::timeout);
    gate.open();
    waiting.get();
    EXPECT_TRUE(stream.query());
  }
}

TEST(AllWork, WaitLeavesTheCurrentDeviceBound) {
  if (device_count() < 2) GTEST_SKIP() << "needs two devices";
  getDefaultNPUStream(1).synchronize();
  const BoundDevice bound(0);
  wait_for_all_work();
  EXPECT_EQ(detail::thread_state().bound_device, 0);
}

TEST(AllWork, WaitCanBeInterrupted) {
  const NPUStream stream = getNPUStreamFromPool();
  Gate gate(stream);
  set_interrupt_check([] { throw std::runtime_error("stop"); });
  EXPECT_THROW(wait_for_all_work(), std::runtime_error);
  set_interrupt_check(nullptr);
  EXPECT_FALSE(stream.query());
}

TEST(NoCaptures, MakesACaptureWait) {
  NPUGraph graph;
  std::future<void> capturing;
  {
    const NoCaptures scope;
    ASSERT_TRUE(scope.holds());
    capturing = std::async(std::launch::async, [&] {
      setCurrentNPUStream(getNPUStreamFromPool());
      graph.capture_begin({}, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
      EXPECT_FALSE(NoCaptures().holds());
      graph.capture_end();
    });
    EXPECT_EQ(capturing.wait_for(std::chrono::milliseconds(2 * detail::kSlice)), std::future_status::timeout);
    EXPECT_FALSE(captures_exist());
  }
  capturing.get();
  EXPECT_TRUE(NoCaptures().holds());
}

TEST(NoCaptures, RefusesACaptureOfItsOwnThread) {
  const NoCaptures scope;
  const NPUStream before = getCurrentNPUStream();
  setCurrentNPUStream(getNPUStreamFromPool());
  NPUGraph graph;
  EXPECT_THROW(graph.capture_begin({}, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), c10::Error);
  setCurrentNPUStream(before);
}

TEST(LateErrors, AreThrownByTheNextSynchronisingCallOnce) {
  getDefaultNPUStream(0).synchronize();  // the device is in use
  raise_later(failure_of("the first"));
  raise_later(failure_of("the second"));
  EXPECT_EQ(text_of_synchronize(), "the first\nthe second");
  EXPECT_EQ(text_of_synchronize(), "");
}

TEST(LateErrors, DoNotEndTheWaitForAllWork) {
  getDefaultNPUStream(0).synchronize();
  raise_later(failure_of("an earlier one"));
  EXPECT_NO_THROW(wait_for_all_work());
  EXPECT_EQ(text_of_synchronize(), "an earlier one");
}

TEST(LateErrors, DoNotIncludeAnUnfinishedWait) {
  raise_later(std::make_exception_ptr(WaitUnfinished({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, "too long")));
  EXPECT_EQ(text_of_synchronize(), "");
}

TEST(LateErrors, PassInterruptsToTheKeeper) {
  static int kept = 0;
  set_interrupt_keeper([](std::exception_ptr) { ++kept; });
  raise_later(std::make_exception_ptr(std::runtime_error("an interrupt")));
  set_interrupt_keeper(nullptr);
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(text_of_synchronize(), "");
}

}  // namespace
}  // namespace torch_npu
