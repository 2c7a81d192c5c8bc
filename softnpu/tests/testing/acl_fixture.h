// Helpers for the tests of an AscendCL device. They use only the C ABI, so that they work with every libascendcl (main.cpp).
// Tests of features that only softnpu has begin with REQUIRE_SOFTNPU.
//
//   TEST_F(AclFixture, LaterTasksWaitForTheCallback) {
//     Stream stream = make_stream();
//     Gate gate(stream);                       // holds the stream
//     Flag reached = signal_when_run(stream);
//     EXPECT_FALSE(reached.within(20ms));
//     gate.open();
//     EXPECT_TRUE(reached.within(kPatience));
//   }
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "runtime/driver.h"

namespace softnpu::test {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// The time limit for something that must happen. Only a fault takes longer, also on a busy machine.
constexpr milliseconds kPatience = 60s;
constexpr auto kPatienceMs = int32_t(kPatience.count());

// Each test starts with device 0 current on its thread, and ends with an idle device that is reset. A failed task whose error the
// test did not read fails the test.
class AclFixture : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

 private:
  aclrtContext context_ = nullptr;
};

// The text of aclGetRecentErrMsg, "" if there is none. Clears it.
std::string recent_error();
// "ACL_ERROR_RT_PARAM_INVALID (107000)".
std::string code_text(aclError code);

// The call succeeds, or returns exactly `code`. The failure message has code, name and recent error.
#define EXPECT_ACL(call) EXPECT_PRED_FORMAT1(::softnpu::test::succeeds, call)
#define ASSERT_ACL(call) ASSERT_PRED_FORMAT1(::softnpu::test::succeeds, call)
#define EXPECT_ACL_ERROR(code, call) EXPECT_PRED_FORMAT2(::softnpu::test::fails_with, code, call)
#define ASSERT_ACL_ERROR(code, call) ASSERT_PRED_FORMAT2(::softnpu::test::fails_with, code, call)
// The call fails with any code and sets the recent error. Clears the recent error.
#define EXPECT_REFUSED(call) EXPECT_PRED_FORMAT1(::softnpu::test::is_refused, call)
// The recent error contains `words`. Clears the recent error.
#define EXPECT_RECENT_ERROR(words) EXPECT_PRED_FORMAT2(::softnpu::test::contains, ::softnpu::test::recent_error(), words)

::testing::AssertionResult succeeds(const char* expression, aclError code);
::testing::AssertionResult fails_with(const char* expected_text, const char* expression, aclError expected, aclError code);
::testing::AssertionResult is_refused(const char* expression, aclError code);
::testing::AssertionResult contains(const char* text_expression, const char* words_expression, const std::string& text,
                                    const std::string& words);

// Owns a handle of one of the aclrtCreate functions. Converts to the plain handle.
template <aclError (*kDestroy)(void*)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(void* handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }

  operator void*() const { return handle_; }
  void* get() const { return handle_; }
  // The test destroys it itself.
  [[nodiscard]] void* release() { return std::exchange(handle_, nullptr); }

 private:
  void* handle_ = nullptr;
};

using Stream = Owned<aclrtDestroyStream>;
using Event = Owned<aclrtDestroyEvent>;
using Context = Owned<aclrtDestroyContext>;
using DeviceBuffer = Owned<aclrtFree>;
using PinnedBuffer = Owned<aclrtFreeHost>;

// If the creation fails, the test fails and the result is null.
Stream make_stream(uint32_t priority = 0, uint32_t flags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
Event make_event(uint32_t flags = ACL_EVENT_SYNC);
Context make_context(int32_t device = 0);
DeviceBuffer make_device_buffer(size_t bytes);
PinnedBuffer make_pinned_buffer(size_t bytes);

// Is set once, by any thread. Copies share the same flag.
class Flag {
 public:
  Flag();
  void set() const;
  bool is_set() const;
  // Whether it is set before `span` has passed.
  bool within(milliseconds span) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Runs `function` in the stream's order, as a host callback.
aclError run_on(aclrtStream stream, std::function<void()> function);
// A flag that the stream sets.
Flag signal_when_run(aclrtStream stream);

// Holds a stream with a host callback until it is opened, or for longer than kPatience. Declare it after the stream, so that the
// gate opens before the destructor of the stream waits.
class Gate {
 public:
  explicit Gate(aclrtStream stream);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  void open() const { opened_.set(); }
  // Is set when the callback has begun.
  const Flag& entered() const { return entered_; }
  // Is set when the callback ends.
  const Flag& left() const { return left_; }

 private:
  Flag entered_;
  Flag opened_;
  Flag left_;
};

// Polls `condition`. Whether it becomes true before `span` has passed.
bool eventually(const std::function<bool()>& condition, milliseconds span = kPatience);

// Whether a thread of this process (its TID) sleeps for about 20 ms from now on, as a waiting thread does. False for 0.
bool falls_asleep(int thread);

// The private driver of softnpu; null on another device.
const SoftnpuDriver* driver();
#define REQUIRE_SOFTNPU() \
  if (::softnpu::test::driver() == nullptr) GTEST_SKIP() << "only softnpu has the driver that this test uses"

// A device task. `run` returns a code and may write a message of SOFTNPU_TASK_MESSAGE bytes. Needs REQUIRE_SOFTNPU.
struct Task {
  std::function<aclError(char* message)> run;
  const char* name = "test_task";
  uint64_t cost = kLargeCost;
  uint32_t flags = 0;

  static constexpr uint64_t kSmallCost = 1;                  // runs in the launching call if the stream is idle
  static constexpr uint64_t kLargeCost = uint64_t{1} << 30;  // is always queued
};
aclError launch(aclrtStream stream, Task task);
// Fails with `code` and `message`.
Task failing_task(const char* name, aclError code = ACL_ERROR_RT_AICORE_EXCEPTION, std::string message = "it broke");
// The number of tasks that were launched and not released.
int live_tasks();

// The result of tests of this program that ran in a child process.
struct Child {
  int exit_code = -1;  // minus the number of the signal, if a signal ended it
  bool timed_out = false;
  std::string output;  // stdout and stderr

  bool passed() const { return exit_code == 0 && !timed_out; }
};
constexpr milliseconds kChildLimit = 100s;
// `filter` as for --gtest_filter. Suites named Child... run only this way. `environment` has entries "NAME=value".
Child run_child(const std::string& filter, const std::vector<std::string>& environment = {}, milliseconds limit = kChildLimit);
#define EXPECT_CHILD_PASSES(...) EXPECT_PRED_FORMAT1(::softnpu::test::child_passes, ::softnpu::test::run_child(__VA_ARGS__))
::testing::AssertionResult child_passes(const char* expression, const Child& child);

}  // namespace softnpu::test
