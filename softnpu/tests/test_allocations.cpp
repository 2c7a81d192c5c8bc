// Calls that run for every operator allocate nothing on the heap of the host after a first call. Allocations of all threads are
// counted by a replacement of malloc, which operator new also uses.
#include <atomic>
#include <cerrno>

#include "testing/acl_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0  // the sanitizer replaces malloc itself
#else
#define COUNTS_ALLOCATIONS 1
#endif

namespace {

std::atomic<bool> g_counting{false};
std::atomic<int> g_allocations{0};

}  // namespace

#if COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#define INTERPOSED __attribute__((visibility("default")))

static void count_allocation() {
  if (g_counting.load(std::memory_order_relaxed)) g_allocations.fetch_add(1, std::memory_order_relaxed);
}
INTERPOSED void* malloc(size_t bytes) {
  count_allocation();
  return __libc_malloc(bytes);
}
INTERPOSED void* calloc(size_t count, size_t bytes) {
  count_allocation();
  return __libc_calloc(count, bytes);
}
INTERPOSED void* realloc(void* block, size_t bytes) {
  count_allocation();
  return __libc_realloc(block, bytes);
}
INTERPOSED void* memalign(size_t alignment, size_t bytes) {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
INTERPOSED void* aligned_alloc(size_t alignment, size_t bytes) {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
INTERPOSED int posix_memalign(void** block, size_t alignment, size_t bytes) {
  count_allocation();
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}
#endif

namespace softnpu::test {
namespace {

constexpr int kRepetitions = 400;  // fewer than a stream holds

class AllocationsTest : public AclFixture {
 protected:
  void SetUp() override {
    if (!COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitizer replaces malloc";
    REQUIRE_SOFTNPU();
    AclFixture::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) AclFixture::TearDown();
  }
};

// The number of allocations during the second run of `body`. The first run fills the caches.
template <typename Body>
int warm_allocations(const Body& body) {
  body();
  g_allocations = 0;
  g_counting = true;
  body();
  g_counting = false;
  return g_allocations;
}

struct Hold {
  std::atomic<bool>* opened;
};

constexpr SoftnpuTaskKind kEmpty = {.name = "empty",
                                    .run = [](void*, char*) -> aclError { return ACL_SUCCESS; },
                                    .release = nullptr,
                                    .ready = nullptr,
                                    .flags = 0,
                                    .visit = nullptr};
constexpr SoftnpuTaskKind kHold = {.name = "hold",
                                   .run = [](void* payload, char*) -> aclError {
                                     static_cast<Hold*>(payload)->opened->wait(false);
                                     return ACL_SUCCESS;
                                   },
                                   .release = nullptr,
                                   .ready = nullptr,
                                   .flags = SOFTNPU_TASK_ON_WORKER,
                                   .visit = nullptr};

aclError launch_empty(aclrtStream stream, uint64_t cost) {
  const uint64_t payload[8] = {};
  return driver()->launch(stream, &kEmpty, payload, sizeof payload, cost);
}

// Keeps a stream busy without allocations, unlike Gate. Opens at the end of its scope.
class Held {
 public:
  explicit Held(aclrtStream stream) {
    const Hold hold{&opened_};
    EXPECT_ACL(driver()->launch(stream, &kHold, &hold, sizeof hold, Task::kLargeCost));
  }
  ~Held() {
    opened_ = true;
    opened_.notify_all();
    EXPECT_ACL(aclrtSynchronizeDeviceWithTimeout(kPatienceMs));
  }

 private:
  std::atomic<bool> opened_{false};
};

// Its worker has run: a thread may allocate when it starts.
Stream make_warm_stream() {
  Stream stream = make_stream();
  const Held held(stream);
  return stream;
}

TEST_F(AllocationsTest, CounterCountsAllocationsOfTheLibrary) {
  EXPECT_GT(warm_allocations([] { ::operator delete(::operator new(100)); }), 0);
  EXPECT_GT(warm_allocations([] { aclrtFree(reinterpret_cast<void*>(64)); }), 0) << "the message of a failure is allocated";
}

TEST_F(AllocationsTest, InlineLaunchAllocatesNothing) {
  Stream stream = make_warm_stream();
  EXPECT_EQ(warm_allocations([&] {
              for (int i = 0; i < kRepetitions; ++i) EXPECT_ACL(launch_empty(stream, Task::kSmallCost));
            }),
            0);
}

TEST_F(AllocationsTest, QueuedLaunchAndSynchronizeAllocateNothing) {
  Stream stream = make_warm_stream();
  EXPECT_EQ(warm_allocations([&] {
              for (int i = 0; i < kRepetitions; ++i) EXPECT_ACL(launch_empty(stream, Task::kLargeCost));
              EXPECT_ACL(aclrtSynchronizeStream(stream));
            }),
            0);
}

TEST_F(AllocationsTest, SynchronizeWithATimeLimitAllocatesNothing) {
  Stream stream = make_warm_stream();
  EXPECT_EQ(warm_allocations([&] {
              for (int i = 0; i < kRepetitions; ++i) {
                EXPECT_ACL(launch_empty(stream, Task::kLargeCost));
                EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(stream, kPatienceMs));
              }
            }),
            0);
}

TEST_F(AllocationsTest, RecordQueryAndSynchronizeEventAllocateNothing) {
  Stream stream = make_warm_stream();
  for (const uint32_t flags : {ACL_EVENT_SYNC, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE}) {
    Event event = make_event(flags);
    EXPECT_EQ(warm_allocations([&] {
                for (int i = 0; i < kRepetitions; ++i) {
                  aclrtEventRecordedStatus status;
                  EXPECT_ACL(launch_empty(stream, Task::kLargeCost));
                  EXPECT_ACL(aclrtRecordEvent(event, stream));
                  EXPECT_ACL(aclrtQueryEventStatus(event, &status));
                  EXPECT_ACL(aclrtSynchronizeEvent(event));
                }
              }),
              0)
        << "flags " << flags;
  }
}

TEST_F(AllocationsTest, WaitForAnEventOfABusyStreamAllocatesNothing) {
  Stream producer = make_warm_stream();
  Stream consumer = make_warm_stream();
  Event event = make_event();
  const auto record_and_wait = [&] {
    for (int i = 0; i < kRepetitions; ++i) {
      EXPECT_ACL(aclrtRecordEvent(event, producer));
      EXPECT_ACL(aclrtStreamWaitEvent(consumer, event));
    }
  };
  {
    Held held(producer);
    record_and_wait();
  }
  Held held(producer);
  g_allocations = 0;
  g_counting = true;
  record_and_wait();
  g_counting = false;
  EXPECT_EQ(g_allocations, 0);
}

TEST_F(AllocationsTest, AsynchronousCopyAndMemsetAllocateNothing) {
  constexpr size_t kBytes = 4096;
  Stream stream = make_warm_stream();
  DeviceBuffer device = make_device_buffer(kBytes);
  PinnedBuffer pinned = make_pinned_buffer(kBytes);
  EXPECT_EQ(warm_allocations([&] {
              for (int i = 0; i < kRepetitions; ++i) {
                EXPECT_ACL(aclrtMemsetAsync(device, kBytes, i, kBytes, stream));
                EXPECT_ACL(aclrtMemcpyAsync(pinned, kBytes, device, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
              }
              EXPECT_ACL(aclrtSynchronizeStream(stream));
            }),
            0);
}

}  // namespace
}  // namespace softnpu::test
