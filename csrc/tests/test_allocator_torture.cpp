// Threads that allocate and free at random, on several streams and in a pool, with a checker that knows every live block.
//
// TORCH_NPU_TORTURE_STEPS sets the number of allocations and frees. TORCH_NPU_TORTURE_SEED repeats the random choices of a run;
// the order of threads may differ.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "core/memory/allocator.h"
#include "core/memory/memory_pool.h"
#include "gate.h"

namespace torch_npu {
namespace {

constexpr int kThreads = 4;
constexpr size_t kHeld = 48;  // per thread

uint64_t number_from_environment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::stoull(text) : standard;
}

// Live memory by address. add() is called after an allocation, remove() before a free.
class Checker {
 public:
  void add(const at::DataPtr& memory, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.get());
    const std::lock_guard lock(mutex_);
    const auto next = live_.lower_bound(begin);
    if (next != live_.end() && next->first < begin + bytes) ++overlaps_;
    if (next != live_.begin() && std::prev(next)->second > begin) ++overlaps_;
    live_.emplace_hint(next, begin, begin + bytes);
    ++allocations_;
    bytes_ += bytes;
  }

  void remove(const at::DataPtr& memory) {
    const std::lock_guard lock(mutex_);
    if (live_.erase(reinterpret_cast<uintptr_t>(memory.get())) != 1) ++overlaps_;
  }

  uint64_t overlaps() const { return overlaps_; }
  uint64_t allocations() const { return allocations_; }
  uint64_t bytes() const { return bytes_; }
  bool is_empty() const { return live_.empty(); }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> live_;
  uint64_t overlaps_ = 0, allocations_ = 0, bytes_ = 0;
};

class Worker {
 public:
  Worker(Checker& checker, const std::vector<NPUStream>& streams, const MemoryPool* pool, uint64_t seed)
      : checker_(checker), streams_(streams), pool_(pool), random_(seed) {}

  void run(uint64_t steps) {
    for (uint64_t step = 0; step < steps; ++step) {
      const bool wants_more = held_.size() < kHeld && random_() % 2 == 0;
      if (held_.empty() || wants_more) {
        allocate();
      } else {
        release();
      }
      if (step % 256 == 0) keep_a_stream_busy();
      if (step % 65536 == 65535) getNPUAllocator()->emptyCache();
    }
    gate_.reset();
    while (!held_.empty()) release();
    setCurrentNPUStream(streams_[0]);
  }

 private:
  size_t pick_size() {
    const uint32_t kind = random_() % 64;
    const size_t limit = kind < 48 ? 8 << 10 : kind < 62 ? 256 << 10 : 2 << 20;
    return 1 + random_() % limit;
  }

  void allocate() {
    const size_t bytes = pick_size();
    setCurrentNPUStream(pick_stream());
    std::optional<UsePool> use;
    if (pool_ != nullptr && random_() % 4 == 0) use.emplace(*pool_, 0);
    held_.push_back(allocate_memory(bytes));
    checker_.add(held_.back(), bytes);
    if (random_() % 8 == 0) recordStream(held_.back(), pick_stream());
  }

  void release() {
    std::swap(held_[random_() % held_.size()], held_.back());
    checker_.remove(held_.back());
    held_.pop_back();
  }

  NPUStream pick_stream() { return streams_[random_() % streams_.size()]; }

  // Frees of recorded memory then have to wait.
  void keep_a_stream_busy() {
    gate_.reset();
    gate_ = std::make_unique<Gate>(pick_stream());
    gate_->open();
  }

  Checker& checker_;
  const std::vector<NPUStream>& streams_;
  const MemoryPool* const pool_;
  std::minstd_rand random_;
  std::vector<at::DataPtr> held_;
  std::unique_ptr<Gate> gate_;
};

void torture(uint64_t steps) {
  const uint64_t seed = number_from_environment("TORCH_NPU_TORTURE_SEED", std::random_device()());
  SCOPED_TRACE("TORCH_NPU_TORTURE_SEED=" + std::to_string(seed));
  c10::DeviceAllocator& allocator = *getNPUAllocator();
  const std::vector<NPUStream> streams{getDefaultNPUStream(), getNPUStreamFromPool(), getNPUStreamFromPool(true)};
  allocator.emptyCache();
  allocator.resetAccumulatedStats(0);
  const size_t free_at_first = device_memory(0).first;

  Checker checker;
  const auto begin = std::chrono::steady_clock::now();
  {
    const MemoryPool pool;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back(
          [&, i] { Worker(checker, streams, i == 0 ? &pool : nullptr, seed + static_cast<uint64_t>(i)).run(steps / kThreads); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%lu steps in %.1f s, seed %lu\n", steps, seconds.count(), seed);

  EXPECT_EQ(checker.overlaps(), 0u);
  EXPECT_TRUE(checker.is_empty());
  allocator.emptyCache();
  const auto stats = allocator.getDeviceStats(0);
  EXPECT_EQ(stats.allocation[0].allocated, static_cast<int64_t>(checker.allocations()));
  EXPECT_EQ(stats.requested_bytes[0].allocated, static_cast<int64_t>(checker.bytes()));
  for (const auto* stat : {&stats.allocation, &stats.allocated_bytes, &stats.active, &stats.active_bytes, &stats.requested_bytes,
                           &stats.inactive_split, &stats.inactive_split_bytes, &stats.segment, &stats.reserved_bytes}) {
    for (const auto& one : *stat) {
      EXPECT_EQ(one.current, 0);
      EXPECT_EQ(one.allocated, one.freed);
    }
  }
  EXPECT_EQ(stats.num_device_alloc, stats.num_device_free);
  EXPECT_EQ(device_memory(0).first, free_at_first);
}

TEST(AllocatorTortureTest, NoBlocksOverlapNothingLeaksAndTheStatisticsAgree) {
  torture(number_from_environment("TORCH_NPU_TORTURE_STEPS", 300'000));
}

TEST(AllocatorTortureTest, TheSameHoldsWithExpandableSegments) {
  change_allocator_settings("expandable_segments:True");
  torture(number_from_environment("TORCH_NPU_TORTURE_STEPS", 300'000) / 3);
  change_allocator_settings("");
}

}  // namespace
}  // namespace torch_npu
