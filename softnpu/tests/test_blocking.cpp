// Every call that may block, in the situations where it must not: while the process exits, in callbacks, and while another thread
// resets the device or finalizes the library. No call may hang, and none may report unfinished work as done. Each case runs in a
// child process with a time limit.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

// The objects that the blocking calls of a child use. All streams are held until `opened` is set.
struct World {
  aclrtContext context = nullptr;
  aclrtContext made_context = nullptr;
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  aclmdlRI graph = nullptr;
  void* memory = nullptr;
  Flag opened;

  // With `hold` each stream gets a callback that waits for `opened`.
  void make(bool hold) {
    EXPECT_ACL(aclrtGetCurrentContext(&context));
    EXPECT_ACL(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    make_graph();
    stream = make_stream().release();
    event = make_event().release();
    EXPECT_ACL(aclrtCreateContext(&made_context, 0));
    if (hold) hold_stream(nullptr);
    EXPECT_ACL(aclrtSetCurrentContext(context));
    if (!hold) return;
    hold_stream(nullptr);
    hold_stream(stream);
    record();
  }
  void record() const { EXPECT_ACL(aclrtRecordEvent(event, stream)); }

 private:
  void make_graph() {
    Stream captured = make_stream();
    EXPECT_ACL(aclmdlRICaptureBegin(captured, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    EXPECT_ACL(aclrtMemsetAsync(memory, 64, 1, 64, captured));
    EXPECT_ACL(aclmdlRICaptureEnd(captured, &graph));
  }
  void hold_stream(aclrtStream held) const {
    const Flag entered;
    EXPECT_ACL(run_on(held, [entered, opened = opened] {
      entered.set();
      while (!opened.within(1s)) {
      }
    }));
    EXPECT_ACL(run_on(held, [] {}));
    EXPECT_TRUE(entered.within(kPatience));
  }
};

World& world() {
  static auto* instance = new World;
  return *instance;
}

aclError launch_until_refused() {
  for (int count = 0; count < 5000; ++count) {
    if (const aclError code = aclrtLaunchHostFunc(
            world().stream, [](void*) {}, nullptr)) {
      return code;
    }
  }
  return ACL_SUCCESS;
}

aclError copy_to_pageable() {
  char host[64];
  return aclrtMemcpyAsync(host, sizeof host, world().memory, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST, world().stream);
}

aclError process_reports() {
  aclrtStream own = nullptr;
  if (const aclError code = aclrtCreateStream(&own)) return code;
  if (const aclError code = aclrtSubscribeReport(uint64_t(pthread_self()), own)) return code;
  return aclrtProcessReport(-1);
}

constexpr aclError kAborted = ACL_ERROR_RT_STREAM_ABORT;
constexpr aclError kRefused = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

struct Call {
  const char* name;
  aclError (*call)();
  aclError at_exit = kAborted;
  aclError in_callback = kRefused;
};

constexpr Call kCalls[] = {
    {"aclrtSynchronizeStream", [] { return aclrtSynchronizeStream(world().stream); }},
    {"aclrtSynchronizeStreamWithTimeout", [] { return aclrtSynchronizeStreamWithTimeout(world().stream, -1); }},
    {"aclrtSynchronizeEvent", [] { return aclrtSynchronizeEvent(world().event); }},
    {"aclrtSynchronizeEventWithTimeout", [] { return aclrtSynchronizeEventWithTimeout(world().event, -1); }},
    {"aclrtSynchronizeDevice", [] { return aclrtSynchronizeDevice(); }},
    {"aclrtSynchronizeDeviceWithTimeout", [] { return aclrtSynchronizeDeviceWithTimeout(-1); }},
    {"aclrtMemcpyAsync", copy_to_pageable},
    {"aclrtLaunchHostFunc", launch_until_refused, ACL_ERROR_RT_INVALID_HANDLE},
    {"aclrtDestroyStream", [] { return aclrtDestroyStream(world().stream); }},
    {"aclrtDestroyContext", [] { return aclrtDestroyContext(world().made_context); }},
    {"aclrtResetDevice", [] { return aclrtResetDevice(0); }},
    {"aclrtResetDeviceForce", [] { return aclrtResetDeviceForce(0); }},
    {"aclrtStreamAbort", [] { return aclrtStreamAbort(world().stream); }},
    {"aclrtDeviceTaskAbort", [] { return aclrtDeviceTaskAbort(0, 0); }},
    {"aclmdlRIExecute", [] { return aclmdlRIExecute(world().graph, -1); }},
    {"aclFinalize", [] { return aclFinalize(); }, ACL_SUCCESS},
    {"aclrtProcessReport", process_reports},
};

const Call& call_of_this_child() {
  const std::string name = std::getenv("ACL_TEST_CALL");
  for (const Call& call : kCalls) {
    if (name == call.name) return call;
  }
  std::abort();
}

// Runs the call of this child on a thread. Returns when the call blocks.
class Blocked {
 public:
  Blocked() {
    thread_ = std::thread([this] {
      EXPECT_ACL(aclrtSetCurrentContext(world().context));
      number_ = gettid();
      code_ = call_of_this_child().call();
      returned_ = true;
    });
    EXPECT_TRUE(eventually([&] { return returned_ || falls_asleep(number_); }));
    EXPECT_FALSE(returned_) << "the call did not block";
  }
  aclError join() {
    thread_.join();
    return code_;
  }

 private:
  std::atomic<pid_t> number_{0};
  std::atomic<aclError> code_{ACL_SUCCESS};
  std::atomic<bool> returned_{false};
  std::thread thread_;
};

// An object whose destructor waits while the process exits. Created before the device library is initialised.
struct JoinsAtExit {
  Blocked* blocked = nullptr;
  ~JoinsAtExit() {
    if (blocked == nullptr) return;
    const aclError code = blocked->join();
    const std::string text = "returned " + std::to_string(code) + "\n";
    [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
  }
} g_joins_at_exit;

class ChildBlocking : public AclFixture {
 protected:
  [[noreturn]] static void leave() { std::exit(HasFailure() ? 1 : 0); }
};

TEST_F(ChildBlocking, AtExit) {
  world().make(/*hold=*/true);
  g_joins_at_exit.blocked = new Blocked;
  leave();
}

void call_and_report() {
  const aclError code = call_of_this_child().call();
  const std::string text = "returned " + std::to_string(code) + "\n";
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
}

TEST_F(ChildBlocking, InHostCallback) {
  world().make(/*hold=*/false);
  const Flag done;
  Stream stream(world().stream);
  EXPECT_ACL(run_on(world().stream, [done] {
    EXPECT_ACL(aclrtSetCurrentContext(world().context));
    world().record();
    call_and_report();
    done.set();
  }));
  EXPECT_TRUE(done.within(kPatience));
  leave();
}

TEST_F(ChildBlocking, InExceptionCallback) {
  REQUIRE_SOFTNPU();
  world().make(/*hold=*/false);
  static const Flag done;
  EXPECT_ACL(aclrtSetExceptionInfoCallback([](aclrtExceptionInfo*) {
    EXPECT_ACL(aclrtSetCurrentContext(world().context));
    world().record();
    call_and_report();
    done.set();
  }));
  EXPECT_ACL(launch(world().stream, failing_task("aclnnBroken")));
  EXPECT_TRUE(done.within(kPatience));
  leave();
}

TEST_F(ChildBlocking, AgainstReset) {
  world().make(/*hold=*/true);
  Blocked blocked;
  std::thread opener([] {
    EXPECT_TRUE(eventually([] {
      int32_t active = 1;
      uint32_t flags = 0;
      return aclrtGetPrimaryCtxState(0, &flags, &active) != ACL_SUCCESS || active == 0;
    }));
    world().opened.set();
  });
  aclrtResetDeviceForce(0);
  opener.join();
  blocked.join();
  leave();
}

TEST_F(ChildBlocking, AgainstFinalize) {
  world().make(/*hold=*/true);
  Blocked blocked;
  std::thread opener([] {
    EXPECT_TRUE(eventually([] {
      aclrtContext context = nullptr;
      return aclrtGetCurrentContext(&context) == ACL_ERROR_UNINITIALIZE;
    }));
    world().opened.set();
  });
  aclFinalize();
  opener.join();
  blocked.join();
  leave();
}

void expect_in_all_calls(const char* situation, aclError Call::*expected) {
  for (const Call& call : kCalls) {
    const Child child = run_child(std::string("ChildBlocking.") + situation, {std::string("ACL_TEST_CALL=") + call.name});
    EXPECT_TRUE(child.passed()) << call.name << (child.timed_out ? " hangs" : "") << "\n" << child.output;
    if (expected == nullptr) continue;
    EXPECT_NE(child.output.find("returned " + std::to_string(call.*expected) + "\n"), std::string::npos) << call.name << "\n"
                                                                                                         << child.output;
  }
}

TEST(BlockingCallTest, ReturnsWhenTheProcessExits) { expect_in_all_calls("AtExit", &Call::at_exit); }
TEST(BlockingCallTest, IsRefusedInAHostCallback) { expect_in_all_calls("InHostCallback", &Call::in_callback); }
TEST(BlockingCallTest, IsRefusedInAnExceptionCallback) { expect_in_all_calls("InExceptionCallback", &Call::in_callback); }
TEST(BlockingCallTest, ReturnsWhenAnotherThreadResetsTheDevice) { expect_in_all_calls("AgainstReset", nullptr); }
TEST(BlockingCallTest, ReturnsWhenAnotherThreadFinalizes) { expect_in_all_calls("AgainstFinalize", nullptr); }

// --- calls of a callback while another thread waits for it -----------------------------------------------------------------

class ChildResetLock : public AclFixture {
 protected:
  // Resets device 0 while `ask` runs in a callback that the reset waits for, or on a thread that this callback waits for.
  static void expect_answered(void (*ask)(), bool on_a_thread) {
    Stream stream = make_stream();
    const Flag answered;
    EXPECT_ACL(run_on(stream, [=] {
      EXPECT_TRUE(eventually([] {
        int32_t active = 1;
        uint32_t flags = 0;
        EXPECT_ACL(aclrtGetPrimaryCtxState(0, &flags, &active));
        return active == 0;
      }));
      if (on_a_thread) {
        std::thread(ask).join();
      } else {
        ask();
      }
      answered.set();
    }));
    EXPECT_ACL(aclrtResetDeviceForce(0));
    EXPECT_TRUE(answered.is_set()) << "the reset did not wait for the callback";
    static_cast<void>(stream.release());
    std::exit(HasFailure() ? 1 : 0);
  }
};

void set_the_device() { EXPECT_ACL(aclrtSetDevice(0)); }
void set_and_synchronize_the_device() {
  EXPECT_ACL(aclrtSetDevice(0));
  EXPECT_ACL(aclrtSynchronizeDeviceWithTimeout(10));
  aclrtUtilizationInfo use{};
  EXPECT_ACL(aclrtGetDeviceUtilizationRate(0, &use));
}

TEST_F(ChildResetLock, InTheCallback) { expect_answered(set_the_device, false); }
TEST_F(ChildResetLock, OnAThread) { expect_answered(set_and_synchronize_the_device, true); }

TEST(ResetTest, HoldsNoLockWhileItWaitsForCallbacks) {
  EXPECT_CHILD_PASSES("ChildResetLock.InTheCallback");
  EXPECT_CHILD_PASSES("ChildResetLock.OnAThread");
}

}  // namespace
}  // namespace softnpu::test
