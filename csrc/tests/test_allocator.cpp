// One test per sentence of allocator.h, and a model of all of them under random use.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <future>
#include <list>
#include <optional>
#include <random>
#include <string>

#include "core/memory/allocator.h"
#include "gate.h"

namespace torch_npu {
namespace {

constexpr size_t kKiB = 1 << 10;
constexpr size_t kMiB = 1 << 20;

// Whether a thread of this process sleeps.
bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  file >> number >> name >> state;
  return state == "S";
}

class AllocatorTest : public testing::Test {
 protected:
  void SetUp() override {
    setCurrentNPUStream(getDefaultNPUStream());
    getNPUAllocator()->emptyCache();
    getNPUAllocator()->resetAccumulatedStats(0);
    getNPUAllocator()->resetPeakStats(0);
    ASSERT_EQ(stats().reserved_bytes[0].current, 0) << "an earlier test kept memory";
  }

  static c10::CachingDeviceAllocator::DeviceStats stats() { return getNPUAllocator()->getDeviceStats(0); }
  static int64_t reserved() { return stats().reserved_bytes[0].current; }
  static at::DataPtr allocate(size_t bytes) { return allocate_memory(bytes); }

  static at::DataPtr allocate_on(NPUStream stream, size_t bytes) {
    setCurrentNPUStream(stream);
    at::DataPtr pointer = allocate_memory(bytes);
    setCurrentNPUStream(getDefaultNPUStream());
    return pointer;
  }
};

TEST_F(AllocatorTest, ZeroBytesGiveANullPointer) {
  const at::DataPtr pointer = allocate(0);
  EXPECT_EQ(pointer.get(), nullptr);
  EXPECT_EQ(pointer.device(), npu_device(0));
  EXPECT_EQ(stats().allocation[0].current, 0);
}

TEST_F(AllocatorTest, SizesAreRoundedTo512Bytes) {
  const at::DataPtr a = allocate(1), b = allocate(513);
  EXPECT_EQ(stats().allocated_bytes[0].current, 512 + 1024);
  EXPECT_EQ(stats().requested_bytes[0].current, 1 + 513);
  EXPECT_EQ(stats().allocation[1].current, 2);
}

TEST_F(AllocatorTest, SegmentsFollowTheSizeOfTheRequest) {
  const at::DataPtr small = allocate(kMiB);
  EXPECT_EQ(reserved(), 2 * kMiB);
  const at::DataPtr shared = allocate(kMiB + 1);
  EXPECT_EQ(reserved(), 22 * kMiB);
  const at::DataPtr own = allocate(30 * kMiB + 1);
  EXPECT_EQ(reserved(), 54 * kMiB);
  EXPECT_EQ(stats().segment[1].current, 1);
  EXPECT_EQ(stats().segment[2].current, 2);
}

TEST_F(AllocatorTest, FreedMemoryIsReusedByItsStreamAtOnce) {
  at::DataPtr first = allocate(100 * kKiB);
  void* const address = first.get();
  const Gate gate(getDefaultNPUStream());  // work that may still use the memory
  first.clear();
  EXPECT_EQ(allocate(100 * kKiB).get(), address);
}

TEST_F(AllocatorTest, FreedMemoryIsNotReusedByAnotherStream) {
  const NPUStream other = getNPUStreamFromPool();
  void* const address = allocate(100 * kKiB).get();
  EXPECT_NE(allocate_on(other, 100 * kKiB).get(), address);
}

TEST_F(AllocatorTest, FreeNeighboursMerge) {
  std::vector<at::DataPtr> parts;
  for (int i = 0; i < 16; ++i) parts.push_back(allocate(128 * kKiB));
  EXPECT_EQ(reserved(), 2 * kMiB);
  for (const size_t i : {0, 2, 4, 6, 8, 10, 12, 14}) parts[i].clear();
  EXPECT_EQ(stats().inactive_split[0].current, 8);
  EXPECT_EQ(stats().inactive_split_bytes[0].current, int64_t(kMiB));
  parts.clear();
  EXPECT_EQ(stats().inactive_split[0].current, 0);
  const at::DataPtr two[] = {allocate(kMiB), allocate(kMiB)};
  EXPECT_EQ(reserved(), 2 * kMiB) << "the whole segment was not in one piece again";
}

TEST_F(AllocatorTest, EmptyCacheGivesFreeSegmentsBackAndKeepsOthers) {
  at::DataPtr small = allocate(1), large = allocate(5 * kMiB);
  large.clear();
  getNPUAllocator()->emptyCache();
  EXPECT_EQ(reserved(), 2 * kMiB);
  small.clear();
  getNPUAllocator()->emptyCache();
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(stats().num_device_alloc, 2);
  EXPECT_EQ(stats().num_device_free, 2);
}

TEST_F(AllocatorTest, RecordedStreamDelaysReuseUntilItIsDone) {
  const NPUStream other = getNPUStreamFromPool();
  at::DataPtr pointer = allocate(100 * kKiB);
  void* const address = pointer.get();
  Gate gate(other);
  recordStream(pointer, other);
  pointer.clear();
  EXPECT_EQ(stats().allocation[0].current, 0);
  EXPECT_EQ(stats().active[0].current, 1) << "it is no longer allocated, but still used";
  EXPECT_NE(allocate(100 * kKiB).get(), address);
  gate.open();
  other.synchronize();
  EXPECT_EQ(allocate(100 * kKiB).get(), address);
  EXPECT_EQ(stats().active[0].current, 0);
}

TEST_F(AllocatorTest, RecordingItsOwnStreamOrForeignMemoryChangesNothing) {
  at::DataPtr pointer = allocate(1);
  recordStream(pointer, getDefaultNPUStream());
  pointer.clear();
  EXPECT_EQ(stats().active[0].current, 0);
  int foreign = 0;
  recordStream(at::DataPtr(&foreign, npu_device(0)), getNPUStreamFromPool());
}

TEST_F(AllocatorTest, RunningOutIsReportedWithNumbersAndLeavesTheAllocatorUsable) {
  const at::DataPtr kept = allocate(50 * kMiB);
  try {
    allocate(400 * kMiB);
    FAIL() << "400 MiB fitted on a device of 256 MiB";
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = error.what();
    for (const char* part : {"NPU out of memory. Tried to allocate 400.00 MiB (NPU 0; 256.00 MiB total capacity; ",
                             "50.00 MiB already allocated; 50.00 MiB current active; ", "50.00 MiB reserved in total by PyTorch",
                             "The device says: aclrtMalloc: cannot allocate"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(stats().num_ooms, 1);
  EXPECT_NE(allocate(50 * kMiB).get(), nullptr);
  try {
    allocate(size_t{1} << 62);
    FAIL() << "4 EiB fitted";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_EQ(std::string(error.what()).find("The device says"), std::string::npos) << "it was not asked: " << error.what();
  }
}

TEST_F(AllocatorTest, CachedMemoryIsGivenBackBeforeAnAllocationFails) {
  allocate(150 * kMiB).clear();
  const at::DataPtr pointer = allocate(200 * kMiB);
  EXPECT_EQ(stats().num_alloc_retries, 1);
  EXPECT_EQ(stats().num_ooms, 0);
}

TEST_F(AllocatorTest, ARequestLargerThanAnyDeviceCountsAsOutOfMemory) {
  EXPECT_THROW(allocate(size_t{1} << 62), c10::OutOfMemoryError);
  EXPECT_EQ(stats().num_ooms, 1);
}

TEST_F(AllocatorTest, AnAllocationFromTheCacheDoesNotWaitForOtherStreams) {
  const NPUStream held = getNPUStreamFromPool();
  void* const cached = allocate_on(held, kKiB).get();
  Gate gate(held);
  std::atomic<pid_t> waiting{0};
  std::thread emptier([&] {
    waiting = gettid();
    getNPUAllocator()->emptyCache();  // waits at the gate
  });
  while (waiting == 0 || !is_asleep(waiting)) std::this_thread::yield();
  auto user = std::async(std::launch::async, [&] { return allocate_on(held, kKiB).get(); });
  const bool is_free = user.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  gate.open();
  emptier.join();
  EXPECT_TRUE(is_free) << "an allocation waited for a stream that another thread waits for";
  EXPECT_EQ(user.get(), cached);
}

TEST_F(AllocatorTest, FractionLimitsReservedMemory) {
  set_memory_fraction(0.25, 0);
  EXPECT_EQ(memory_fraction(0), 0.25);
  EXPECT_THROW(allocate(80 * kMiB), c10::OutOfMemoryError);
  EXPECT_NE(allocate(40 * kMiB).get(), nullptr);
  set_memory_fraction(1, 0);
  EXPECT_NE(allocate(80 * kMiB).get(), nullptr);
  EXPECT_THROW(set_memory_fraction(1.5, 0), c10::Error);
}

TEST_F(AllocatorTest, ABlockRoundedByOlderSettingsIsNotTooSmall) {
  at::DataPtr first = allocate(4200);  // 4608 bytes
  const at::DataPtr behind = allocate(512);
  ASSERT_EQ(static_cast<char*>(behind.get()) - static_cast<char*>(first.get()), 4608);
  change_allocator_settings("roundup_power2_divisions:2");  // 4200 are 6144 now
  first.clear();
  const at::DataPtr next = allocate(6000);
  change_allocator_settings("");
  const auto *begin = static_cast<char*>(next.get()), *other = static_cast<char*>(behind.get());
  EXPECT_TRUE(other + 512 <= begin || begin + 6000 <= other) << "two tensors share memory";
}

TEST_F(AllocatorTest, PeaksAndSumsCanBeReset) {
  allocate(1000).clear();
  EXPECT_EQ(stats().allocated_bytes[0].peak, 1024);
  EXPECT_EQ(stats().allocated_bytes[0].allocated, 1024);
  getNPUAllocator()->resetPeakStats(0);
  getNPUAllocator()->resetAccumulatedStats(0);
  EXPECT_EQ(stats().allocated_bytes[0].peak, 0);
  EXPECT_EQ(stats().allocated_bytes[0].allocated, 0);
  EXPECT_EQ(stats().allocated_bytes[0].freed, 0);
}

TEST_F(AllocatorTest, DevicesAreSeparate) {
  const BoundDevice bound(1);
  const at::DataPtr pointer = allocate(1);
  EXPECT_EQ(pointer.device(), npu_device(1));
  EXPECT_EQ(stats().allocation[0].current, 0);
  EXPECT_EQ(getNPUAllocator()->getDeviceStats(1).allocation[0].current, 1);
}

TEST_F(AllocatorTest, MemoryInfoCountsReservedMemory) {
  const auto [free, total] = getNPUAllocator()->getMemoryInfo(0);
  EXPECT_EQ(total, 256 * kMiB);
  const at::DataPtr pointer = allocate(20 * kMiB);
  EXPECT_LE(getNPUAllocator()->getMemoryInfo(0).first, free - 20 * kMiB);
}

TEST_F(AllocatorTest, CloneCopiesOnTheDevice) {
  const at::DataPtr source = allocate(4);
  const uint32_t word = 0x12345678;
  ACL_CALL(aclrtMemcpy, source.get(), 4, &word, 4, ACL_MEMCPY_HOST_TO_DEVICE);
  const at::DataPtr copy = getNPUAllocator()->clone(source.get(), 4);
  getDefaultNPUStream().synchronize();
  uint32_t read = 0;
  ACL_CALL(aclrtMemcpy, &read, 4, copy.get(), 4, ACL_MEMCPY_DEVICE_TO_HOST);
  EXPECT_EQ(read, word);
}

TEST_F(AllocatorTest, ForkedChildMayFreeButNotAllocate) {
  at::DataPtr pointer = allocate(1);
  recordStream(pointer, getNPUStreamFromPool());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pointer.clear();
    bool refused = false;
    try {
      allocate(1);
    } catch (const c10::Error& error) {
      refused = std::string(error.what()).find("spawn") != std::string::npos;
    }
    _exit(refused && device_count() == 2 && is_in_bad_fork() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(AllocatorTest, ThreadsMayAllocateAndFreeAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::mt19937 random(t);
      const NPUStream other = getNPUStreamFromPool();
      std::deque<at::DataPtr> held;
      for (int i = 0; i < 5000; ++i) {
        held.push_back(allocate(1 + random() % (64 * kKiB)));
        if (random() % 8 == 0) recordStream(held.back(), other);
        if (held.size() > 32) held.pop_front();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stats().allocation[0].current, 0);
  EXPECT_EQ(stats().allocated_bytes[0].current, 0);
}

// Checks that the allocator never hands out memory that is allocated or that a stream still uses. Gates hold and release streams
// at random, so the model knows which uses are over.
class Model {
 public:
  explicit Model(uint32_t seed) : random_(seed) {
    streams_.push_back(getDefaultNPUStream());
    for (int i = 0; i < 2; ++i) streams_.push_back(getNPUStreamFromPool());
    gates_.resize(streams_.size());
  }

  void step() {
    switch (random_() % 8) {
      case 0:
        return toggle(random_() % streams_.size());
      case 1:
        return record();
      case 2:
      case 3:
      case 4:
        return release();
      default:
        return allocate();
    }
  }

  void finish() {
    open_all();
    live_.clear();
  }

  int64_t live_count() const { return static_cast<int64_t>(live_.size()); }
  int64_t live_bytes() const {
    int64_t sum = 0;
    for (const Piece& piece : live_) sum += static_cast<int64_t>((piece.requested + 511) / 512 * 512);
    return sum;
  }
  int64_t requested_bytes() const {
    int64_t sum = 0;
    for (const Piece& piece : live_) sum += static_cast<int64_t>(piece.requested);
    return sum;
  }

 private:
  struct Piece {
    at::DataPtr pointer;
    uintptr_t begin;
    size_t requested;
    size_t owner;               // the stream of the allocation
    std::vector<size_t> users;  // other streams that were recorded
  };
  struct Used {
    uintptr_t begin, end;
    size_t stream;  // was held when the memory was freed
  };

  size_t pick_size() {
    const size_t limits[] = {2 * kKiB, 300 * kKiB, 3 * kMiB, 12 * kMiB};
    return 1 + random_() % limits[random_() % 4];
  }

  void allocate() {
    if (live_.size() > 40) return release();
    // Stays below the size of the device: an allocation that runs out waits for streams, which only this thread releases.
    if (getNPUAllocator()->getDeviceStats(0).reserved_bytes[0].current > int64_t(160 * kMiB)) open_all();
    const size_t stream = random_() % streams_.size(), bytes = pick_size();
    setCurrentNPUStream(streams_[stream]);
    std::optional<at::DataPtr> pointer;
    try {
      pointer = allocate_memory(bytes);
    } catch (const c10::OutOfMemoryError&) {
      setCurrentNPUStream(streams_[0]);
      return release();
    }
    setCurrentNPUStream(streams_[0]);
    const auto begin = reinterpret_cast<uintptr_t>(pointer->get()), end = begin + bytes;
    EXPECT_EQ(begin % 512, 0u);
    for (const Piece& other : live_)
      EXPECT_TRUE(end <= other.begin || begin >= other.begin + other.requested) << "memory that is in use was handed out";
    for (const Used& other : used_)
      EXPECT_TRUE(end <= other.begin || begin >= other.end)
          << "memory was handed out that stream " << other.stream << " still uses";
    live_.push_back({std::move(*pointer), begin, bytes, stream, {}});
  }

  void release() {
    if (live_.empty()) return;
    auto piece = std::next(live_.begin(), static_cast<ptrdiff_t>(random_() % live_.size()));
    for (const size_t stream : piece->users) {
      if (gates_[stream]) used_.push_back({piece->begin, piece->begin + piece->requested, stream});
    }
    live_.erase(piece);
  }

  void record() {
    if (live_.empty()) return;
    auto piece = std::next(live_.begin(), static_cast<ptrdiff_t>(random_() % live_.size()));
    const size_t stream = random_() % streams_.size();
    recordStream(piece->pointer, streams_[stream]);
    if (stream != piece->owner) piece->users.push_back(stream);
  }

  void toggle(size_t stream) {
    if (gates_[stream] != nullptr) return open(stream);
    gates_[stream] = std::make_unique<Gate>(streams_[stream]);
  }

  void open(size_t stream) {
    gates_[stream].reset();
    streams_[stream].synchronize();
    std::erase_if(used_, [&](const Used& used) { return used.stream == stream; });
  }

  void open_all() {
    for (size_t stream = 0; stream < streams_.size(); ++stream) open(stream);
  }

  std::mt19937 random_;
  std::vector<NPUStream> streams_;
  std::vector<std::unique_ptr<Gate>> gates_;
  std::list<Piece> live_;
  std::list<Used> used_;
};

TEST_F(AllocatorTest, RandomUseAgreesWithTheModel) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Model model(seed);
    for (int i = 0; i < 2000 && !HasFailure(); ++i) {
      model.step();
      const auto now = stats();
      ASSERT_EQ(now.allocation[0].current, model.live_count()) << "seed " << seed << " step " << i;
      ASSERT_GE(now.requested_bytes[0].current, model.requested_bytes());
      ASSERT_GE(now.allocated_bytes[0].current, model.live_bytes());
      ASSERT_GE(now.active_bytes[0].current, now.allocated_bytes[0].current);
      ASSERT_GE(now.reserved_bytes[0].current, now.active_bytes[0].current);
    }
    model.finish();
    getNPUAllocator()->emptyCache();
    ASSERT_EQ(reserved(), 0) << "seed " << seed << ": memory was lost";
    ASSERT_EQ(stats().active[0].current, 0);
  }
}

}  // namespace
}  // namespace torch_npu
