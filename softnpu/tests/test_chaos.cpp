// Threads that create, use, destroy, reset and finalize objects that other threads use at the same time. Calls may fail, but each
// failure has a message, nothing crashes or hangs, every task is released once, and afterwards the library works. Under TSan the
// test finds data races of the device library.
//
//   SOFTNPU_CHAOS_SEED=7 SOFTNPU_STRESS_SECONDS=60 softnpu_tests --gtest_filter='ChaosTest.*'
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

constexpr int kThreads = 4;
constexpr size_t kPlaces = 6;

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoull(value, nullptr, 10);
}

// Handles that all threads use.
struct Shared {
  std::atomic<aclrtContext> contexts[kPlaces] = {};
  std::atomic<aclrtStream> streams[kPlaces] = {};
  std::atomic<aclrtEvent> events[kPlaces] = {};
  std::atomic<aclmdlRI> graphs[kPlaces] = {};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> calls{0};
};

class Worker {
 public:
  Worker(Shared& shared, uint64_t seed, bool finalizes)
      : shared_(shared), random_(static_cast<uint32_t>(seed * 2654435761U + 1)), finalizes_(finalizes) {}

  void run() {
    aclrtSetDevice(0);
    while (!shared_.stop) {
      step();
      ++shared_.calls;
    }
    aclrtUnSubscribeReport(self(), nullptr);
  }

 private:
  static uint64_t self() { return uint64_t(pthread_self()); }
  static void do_nothing(void*) {}

  size_t below(size_t bound) { return random_() % bound; }
  int32_t device() { return static_cast<int32_t>(below(2)); }
  template <typename T>
  std::atomic<T>& any(std::atomic<T> (&places)[kPlaces]) {
    return places[below(kPlaces)];
  }
  // Sometimes the default stream.
  aclrtStream stream() { return below(8) == 0 ? nullptr : any(shared_.streams).load(); }

  static void check(aclError code) {
    if (code == ACL_SUCCESS) return;
    EXPECT_NE(recent_error(), "") << code_text(code) << " without a message";
  }

  void step() {
    switch (below(finalizes_ ? 13 : 12)) {
      case 0:
        return use_devices();
      case 1:
        return use_contexts();
      case 2:
      case 3:
        return make_or_destroy();
      case 4:
      case 5:
        return use_events();
      case 6:
      case 7:
      case 8:
        return launch_something();
      case 9:
      case 10:
        return wait_for_something();
      case 11:
        return below(2) == 0 ? use_graphs() : use_reports();
      default:
        return restart();
    }
  }

  void use_devices() {
    aclrtContext context = nullptr;
    aclrtUtilizationInfo use{};
    switch (below(8)) {
      case 0:
        return check(aclrtResetDevice(device()));
      case 1:
        return check(below(8) == 0 ? aclrtResetDeviceForce(device()) : ACL_SUCCESS);
      case 2:
        return check(aclrtGetCurrentContext(&context));
      case 3:
        return check(aclrtGetDeviceUtilizationRate(device(), &use));
      default:
        return check(aclrtSetDevice(device()));
    }
  }

  void use_contexts() {
    std::atomic<aclrtContext>& place = any(shared_.contexts);
    aclrtContext made = nullptr;
    switch (below(6)) {
      case 0:
        check(aclrtCreateContext(&made, device()));
        if (aclrtContext old = place.exchange(made)) check(aclrtDestroyContext(old));
        return;
      case 1:
        return check(aclrtDestroyContext(place));
      case 2:
        return check(aclrtSetDevice(device()));
      default:
        return check(aclrtSetCurrentContext(place));
    }
  }

  void make_or_destroy() {
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    switch (below(6)) {
      case 0:
      case 1:
        if (aclrtCreateStream(&stream) != ACL_SUCCESS) return;
        if (aclrtStream old = any(shared_.streams).exchange(stream)) check(aclrtDestroyStream(old));
        return;
      case 2:
        return check(aclrtDestroyStream(any(shared_.streams)));
      case 3:
        return check(aclrtDestroyStreamForce(any(shared_.streams)));
      case 4:
        if (below(2) == 0 ? aclrtCreateEvent(&event) : aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC)) return;
        if (aclrtEvent old = any(shared_.events).exchange(event)) check(aclrtDestroyEvent(old));
        return;
      default:
        return check(aclrtDestroyEvent(any(shared_.events)));
    }
  }

  void use_events() {
    aclrtEvent event = any(shared_.events);
    aclrtEventRecordedStatus status;
    uint64_t time = 0;
    switch (below(6)) {
      case 0:
        return check(aclrtQueryEventStatus(event, &status));
      case 1:
        return check(aclrtStreamWaitEvent(stream(), event));
      case 2:
        return check(aclrtSynchronizeEvent(event));
      case 3:
        return check(aclrtEventGetTimestamp(event, &time));
      case 4:
        return check(aclrtResetEvent(event, stream()));
      default:
        return check(aclrtRecordEvent(event, stream()));
    }
  }

  void launch_something() {
    switch (below(6)) {
      case 0:
        return check(launch(stream(), failing_task("aclnnBroken")));
      case 1:
        return check(aclrtLaunchHostFunc(stream(), do_nothing, nullptr));
      case 2:
        return check(aclrtSetStreamFailureMode(stream(), below(4) == 0));
      default:
        return check(launch(
            stream(), {.run = [](char*) { return ACL_SUCCESS; }, .cost = below(2) == 0 ? Task::kSmallCost : Task::kLargeCost}));
    }
  }

  void wait_for_something() {
    aclrtStreamStatus status;
    switch (below(9)) {
      case 0:
        return check(aclrtSynchronizeDevice());
      case 1:
        return check(aclrtSynchronizeDeviceWithTimeout(1));
      case 2:
        return check(aclrtStreamAbort(stream()));
      case 3:
        return check(aclrtDeviceTaskAbort(device(), 100));
      case 4:
        return check(aclrtStreamQuery(stream(), &status));
      case 5:
        return check(aclrtSynchronizeStreamWithTimeout(stream(), 1));
      default:
        return check(aclrtSynchronizeStream(stream()));
    }
  }

  void use_graphs() {
    std::atomic<aclmdlRI>& place = any(shared_.graphs);
    aclmdlRI made = nullptr;
    aclrtStream captured = stream();
    switch (below(4)) {
      case 0:
        check(aclmdlRICaptureBegin(captured, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        check(launch(captured, {.run = [](char*) { return ACL_SUCCESS; }}));
        check(aclmdlRICaptureEnd(captured, &made));
        if (made == nullptr) return;
        if (aclmdlRI old = place.exchange(made)) check(aclmdlRIDestroy(old));
        return;
      case 1:
        return check(aclmdlRIDestroy(place));
      default:
        return check(aclmdlRIExecuteAsync(place, stream()));
    }
  }

  void use_reports() {
    switch (below(4)) {
      case 0:
        return check(aclrtSubscribeReport(self(), stream()));
      case 1:
        return check(aclrtUnSubscribeReport(self(), stream()));
      case 2:
        return check(aclrtLaunchCallback(do_nothing, nullptr, ACL_CALLBACK_NO_BLOCK, stream()));
      default:
        return check(aclrtProcessReport(0));
    }
  }

  void restart() {
    if (below(30) != 0) return;
    check(aclFinalize());
    check(aclInit(nullptr));
  }

  Shared& shared_;
  std::minstd_rand random_;
  const bool finalizes_;
};

class ChildChaos : public AclFixture {};

TEST_F(ChildChaos, Run) {
  REQUIRE_SOFTNPU();
  const uint64_t seconds = number_from_environment("SOFTNPU_STRESS_SECONDS", 2);
  const uint64_t seed = number_from_environment("SOFTNPU_CHAOS_SEED", std::random_device()());
  std::printf("SOFTNPU_CHAOS_SEED=%lu, %lu s\n", seed, seconds);
  std::fflush(stdout);
  static Shared shared;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([=] { Worker(shared, seed + static_cast<uint64_t>(thread), thread == 0).run(); });
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  EXPECT_TRUE(eventually([] { return shared.calls > 1000 || HasFailure(); }));
  shared.stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("%lu calls\n", shared.calls.load());
  for (std::atomic<aclmdlRI>& graph : shared.graphs) aclmdlRIDestroy(graph);  // a graph owns tasks

  EXPECT_ACL(aclFinalize());
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; })) << live_tasks() << " tasks were not released";
  recent_error();
  SetUp();
  Stream stream = make_stream();
  EXPECT_TRUE(signal_when_run(stream).within(kPatience));
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST(ChaosTest, ThreadsMayDestroyWhatOthersUse) { EXPECT_CHILD_PASSES("ChildChaos.Run", {}, kChildLimit); }

}  // namespace
}  // namespace softnpu::test
