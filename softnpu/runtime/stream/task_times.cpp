#include "runtime/stream/task_times.h"

#include <array>
#include <atomic>
#include <bit>

namespace softnpu {
namespace {

struct Entry {
  std::atomic<uint64_t> key{0};  // 0: free; constant once it is set
  std::atomic<int64_t> time{0};  // 0: unknown
};

constexpr size_t kEntries = 4096;
constexpr size_t kProbes = 8;
std::array<Entry, kEntries> g_entries;

uint64_t key_of(const SoftnpuTaskKind& kind, uint64_t cost) {
  const auto size_class = uint64_t(std::bit_width(cost)) / 2;
  return reinterpret_cast<uint64_t>(&kind) << 6 | size_class;  // addresses have no more than 57 bits
}

// The entry of a key. A missing entry is added if `may_take` and a place is free; otherwise the result is null.
Entry* find(uint64_t key, bool may_take) {
  const uint64_t first = key * 0x9E3779B97F4A7C15u >> 52;
  for (size_t i = 0; i < kProbes; ++i) {
    Entry& entry = g_entries[(first + i) % kEntries];
    uint64_t found = entry.key.load(std::memory_order_relaxed);
    if (found == key) return &entry;
    if (found != 0) continue;
    if (!may_take) return nullptr;
    if (entry.key.compare_exchange_strong(found, key, std::memory_order_relaxed) || found == key) return &entry;
  }
  return nullptr;
}

}  // namespace

std::chrono::nanoseconds TaskTimes::expected(const SoftnpuTaskKind& kind, uint64_t cost) {
  const Entry* entry = find(key_of(kind, cost), /*may_take=*/false);
  const int64_t time = entry == nullptr ? 0 : entry->time.load(std::memory_order_relaxed);
  return time == 0 ? kUnknown : std::chrono::nanoseconds(time);
}

// An exponential moving average with weight 1/2, so that a single slow run has little effect.
void TaskTimes::note(const SoftnpuTaskKind& kind, uint64_t cost, std::chrono::nanoseconds took) {
  Entry* entry = find(key_of(kind, cost), /*may_take=*/true);
  if (entry == nullptr) return;
  const int64_t before = entry->time.load(std::memory_order_relaxed);
  const int64_t now = took.count() + 1;
  entry->time.store(before == 0 ? now : (before + now) / 2, std::memory_order_relaxed);
}

}  // namespace softnpu
