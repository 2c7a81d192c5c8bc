// Random sequences of calls with good and bad arguments, against a model of what must succeed and what must fail.
//
// Handles and addresses are live, destroyed, of the wrong kind, null or garbage. No call may crash or hang, and every failure has
// an error message. Sequence i of a run with seed s is sequence 0 of a run with seed s + i. To repeat a sequence that a failure
// or a crash names:
//
//   SOFTNPU_FUZZ_SEED=1234 SOFTNPU_FUZZ_SEQUENCES=1 softnpu_tests --gtest_filter='FuzzTest.*'
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "testing/fuzz_memory_calls.h"

namespace softnpu::test {
namespace {

constexpr int kCallsPerSequence = 60;

class Sequence : private MemoryCalls {
 public:
  Sequence(uint64_t seed, FuzzDevices devices) : MemoryCalls(seed, devices) {}

  void run() {
    create_stream();
    create_event();
    allocate();
    allocate_host();
    for (int call = 0; call < kCallsPerSequence && !::testing::Test::HasFailure(); ++call) one_call();
    if (!::testing::Test::HasFailure()) clean_up();
  }

  std::string calls() const { return calls_.str(); }
  // Call it where no other thread uses the library.
  void set_alone() { is_alone_ = true; }

 private:
  void one_call() {
    using Call = void (Sequence::*)();
    struct Weighted {
      Call call;
      size_t weight;
    };
    static constexpr Weighted kCalls[] = {
        {&Sequence::set_device, 2},     {&Sequence::reset_device, 1},
        {&Sequence::create_context, 2}, {&Sequence::destroy_context, 2},
        {&Sequence::set_context, 4},    {&Sequence::ask_device, 1},
        {&Sequence::create_stream, 5},  {&Sequence::destroy_stream, 3},
        {&Sequence::synchronize, 4},    {&Sequence::ask_stream, 2},
        {&Sequence::change_stream, 2},  {&Sequence::create_event, 5},
        {&Sequence::destroy_event, 3},  {&Sequence::record_or_wait, 12},
        {&Sequence::ask_event, 4},      {&Sequence::ask_time, 2},
        {&Sequence::allocate, 8},       {&Sequence::free, 5},
        {&Sequence::allocate_host, 3},  {&Sequence::free_host, 2},
        {&Sequence::register_host, 1},  {&Sequence::copy, 16},
        {&Sequence::copy_rows, 3},      {&Sequence::fill, 6},
        {&Sequence::ask_memory, 2},     {&Sequence::use_values, 3},
        {&Sequence::call_host, 3},      {&Sequence::call_with_garbage, 1},
    };
    static const size_t kTotal = [] {
      size_t total = 0;
      for (const Weighted& one : kCalls) total += one.weight;
      return total;
    }();
    size_t chosen = below(kTotal);
    for (const Weighted& one : kCalls) {
      if (chosen < one.weight) return (this->*one.call)();
      chosen -= one.weight;
    }
  }

  void clean_up() {
    drain();
    for (const StreamModel& one : streams_) {
      EXPECT_ACL(aclrtSetCurrentContext(one.context));
      EXPECT_ACL(aclrtDestroyStream(one.handle));
    }
    for (const EventModel& one : events_) EXPECT_ACL(aclrtDestroyEvent(one.handle));
    for (const auto& [block, bytes] : blocks_) EXPECT_ACL(aclrtFree(pointer(block)));
    for (const auto& [block, bytes] : pinned_) EXPECT_ACL(aclrtFreeHost(pointer(block)));
    if (is_registered_) register_host();
    for (const ContextModel& one : contexts_) {
      if (one.is_primary) continue;
      EXPECT_ACL(aclrtDestroyContext(one.handle));
    }
    for (const size_t index : {0, 1}) {
      for (; retains_[index] > 0; --retains_[index]) EXPECT_ACL(aclrtResetDevice(devices_[index]));
    }
    EXPECT_ACL(aclrtSetCurrentContext(contexts_[0].handle));
  }
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kNamesCrashes = false;  // the sanitizer reports them itself
#else
constexpr bool kNamesCrashes = true;
#endif

char g_reproduction[128];

// Signal handler: prints the sequence that crashed, then raises the signal again with the default action.
void print_sequence(int signal_number) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, g_reproduction, sizeof g_reproduction);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoull(value, nullptr, 10);
}

using FuzzTest = AclFixture;

TEST_F(FuzzTest, SequencesOfCallsDoWhatTheModelSays) {
  uint32_t devices = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "needs two devices";
  const uint64_t seed = number_from_environment("SOFTNPU_FUZZ_SEED", 1);
  const uint64_t count = number_from_environment("SOFTNPU_FUZZ_SEQUENCES", 1000);
  std::printf("seed %lu, %lu sequences\n", seed, count);
  for (const int crash : {SIGSEGV, SIGBUS, SIGABRT}) {
    if (kNamesCrashes) signal(crash, print_sequence);
  }
  for (uint64_t i = 0; i < count && !HasFailure(); ++i) {
    std::snprintf(g_reproduction, sizeof g_reproduction, "\nsequence %lu: SOFTNPU_FUZZ_SEED=%lu SOFTNPU_FUZZ_SEQUENCES=1\n", i,
                  seed + i);
    Sequence sequence(seed + i, {});
    sequence.set_alone();
    sequence.run();
    if (HasFailure()) ADD_FAILURE() << g_reproduction << sequence.calls();
  }
  for (const int crash : {SIGSEGV, SIGBUS, SIGABRT}) {
    if (kNamesCrashes) signal(crash, SIG_DFL);
  }
}

// Each thread has two devices, so that the model knows what must succeed. Handles, slots and host memory are shared.
TEST_F(FuzzTest, ThreadsOnDifferentDevicesDoNotDisturbEachOther) {
  uint32_t devices = 0;
  ASSERT_ACL(aclrtGetDeviceCount(&devices));
  if (devices < 4) GTEST_SKIP() << "needs four devices";
  const auto threads = static_cast<int32_t>(std::min<uint32_t>(4, devices / 2));
  const uint64_t seed = number_from_environment("SOFTNPU_FUZZ_SEED", 1);
  const uint64_t count = number_from_environment("SOFTNPU_FUZZ_SEQUENCES", 1000) / 4 + 1;
  std::vector<std::thread> workers;
  for (int32_t thread = 0; thread < threads; ++thread) {
    workers.emplace_back([=] {
      const FuzzDevices own{2 * thread, 2 * thread + 1};
      EXPECT_ACL(aclrtSetDevice(own.home));
      for (uint64_t i = 0; i < count && !HasFailure(); ++i) {
        Sequence sequence(seed + i * static_cast<uint64_t>(threads) + static_cast<uint64_t>(thread), own);
        sequence.run();
        if (HasFailure()) ADD_FAILURE() << "thread " << thread << ", sequence " << i << "\n" << sequence.calls();
      }
      EXPECT_ACL(aclrtResetDevice(own.home));
    });
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace
}  // namespace softnpu::test
