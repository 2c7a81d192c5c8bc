#include "core/memory/allocator.h"

#include <c10/util/ScopeExit.h>

#include <atomic>
#include <unordered_map>

#include "acl/symbol.h"
#include "core/memory/allocator_settings.h"
#include "core/memory/device_cache.h"
#include "core/memory/kept_graphs.h"
#include "core/memory/pluggable_allocator.h"
#include "core/memory/shared_memory.h"
#include "core/memory/uncached_memory.h"
#include "core/stream/open_captures.h"

namespace torch_npu {
namespace {

constinit std::array<std::atomic<DeviceCache*>, kMaxDevices> caches{};
// The caches that allocate_memory() uses without further checks; null while memory is not cached.
constinit std::array<std::atomic<DeviceCache*>, kMaxDevices> open_caches{};
constinit std::atomic<bool> is_caching{true};

DeviceCache* find_cache(c10::DeviceIndex device) { return caches[static_cast<size_t>(device)].load(std::memory_order_acquire); }

// Never destroyed, because memory is freed until the process ends.
DeviceCache& make_cache(c10::DeviceIndex device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (DeviceCache* cache = find_cache(device)) return *cache;
  read_allocator_environment();
  auto* cache = new DeviceCache(device);
  caches[static_cast<size_t>(device)].store(cache, std::memory_order_release);
  return *cache;
}

// Calls `action` with the DeviceCache or UncachedMemory of `device`.
template <typename Action>
auto with_memory_of(c10::DeviceIndex device, Action&& action) {
  TORCH_CHECK(plugged_allocator() == nullptr,
              "the allocator that change_current_allocator() set keeps no statistics and has no limits");
  if (UncachedMemory::is_in_use()) return action(UncachedMemory::of(device));
  return action(device_cache(device));
}

template <typename Memory>
void report_to_profiler(Memory& memory, void* address, int64_t bytes, c10::DeviceIndex device) {
  if (!c10::memoryProfilingEnabled()) [[likely]]
    return;
  const auto [allocated, reserved] = memory.usage();
  c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved, npu_device(device));
}

// Deleter of cached memory, whose context is its Block.
void free_memory(void* context) {
  if (is_in_bad_fork()) return;
  auto* block = static_cast<Block*>(context);
  DeviceCache& cache = block->cache->device;
  void* const address = block->address;
  const auto bytes = static_cast<int64_t>(block->size);
  cache.free(block);
  report_to_profiler(cache, address, -bytes, cache.device());
}

// Deleter of uncached memory, whose context is its Allocation.
void free_uncached_memory(void* context) {
  if (is_in_bad_fork()) return;
  auto* allocation = static_cast<UncachedMemory::Allocation*>(context);
  const c10::DeviceIndex device = allocation->stream.device_index();
  void* const address = allocation->address;
  const auto bytes = static_cast<int64_t>(allocation->size);
  UncachedMemory& memory = UncachedMemory::of(device);
  memory.free(allocation);
  report_to_profiler(memory, address, -bytes, device);
}

at::DataPtr allocate_uncached_memory(size_t bytes, c10::DeviceIndex device, c10::StreamId stream) {
  UncachedMemory& memory = UncachedMemory::of(device);
  UncachedMemory::Allocation* allocation = memory.allocate(bytes, stream);
  report_to_profiler(memory, allocation->address, static_cast<int64_t>(allocation->size), device);
  return {allocation->address, allocation, &free_uncached_memory, npu_device(device)};
}

// Contexts of memory, by address. Thread-safe.
class MemoryByAddress {
 public:
  using Context = std::unique_ptr<void, c10::DeleterFnPtr>;

  // For make_shareable().
  static MemoryByAddress& shared() {
    static MemoryByAddress* const memory = new MemoryByAddress;
    return *memory;
  }
  // For raw_allocate().
  static MemoryByAddress& raw() {
    static MemoryByAddress* const memory = new MemoryByAddress;
    return *memory;
  }

  void add(void* address, Context context) {
    const std::lock_guard lock(mutex_);
    contexts_.emplace(address, std::move(context));
  }
  // Null if there is no entry for `address`.
  Context take(void* address) {
    const std::lock_guard lock(mutex_);
    auto node = contexts_.extract(address);
    return node.empty() ? Context(nullptr, &c10::detail::deleteNothing) : std::move(node.mapped());
  }
  // Null if there is no entry for `address`.
  void* find(void* address, c10::DeleterFnPtr* deleter) {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(address);
    if (found == contexts_.end()) return nullptr;
    *deleter = found->second.get_deleter();
    return found->second.get();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Context> contexts_;
};

void free_shared_memory(void* address) { MemoryByAddress::shared().take(address).reset(); }

// The allocator that owns the pointer; both fields are null for foreign memory.
struct Owner {
  Block* block = nullptr;
  UncachedMemory::Allocation* uncached = nullptr;
};

Owner owner_of(const at::DataPtr& pointer) {
  void* context = pointer.get_context();
  c10::DeleterFnPtr deleter = pointer.get_deleter();
  if (deleter == &free_shared_memory) context = MemoryByAddress::shared().find(pointer.get(), &deleter);
  if (deleter == &free_memory) return {.block = static_cast<Block*>(context)};
  if (deleter == &free_uncached_memory) return {.uncached = static_cast<UncachedMemory::Allocation*>(context)};
  return {};
}

struct Allocator final : c10::DeviceAllocator {
  at::DataPtr allocate(size_t bytes) override { return allocate_memory(bytes); }

  bool is_simple_data_ptr(const at::DataPtr& pointer) const override {
    if (pointer.get_deleter() == &free_memory) return pointer.get_context() == nullptr;  // 0 bytes
    return pointer.get_deleter() == &free_shared_memory;                                 // see make_shareable()
  }

  void copy_data(void* destination, const void* source, size_t count) const override {
    if (count == 0) return;
    const NPUStream stream = getCurrentNPUStream();
    ACL_CALL(aclrtMemcpyAsync, destination, count, source, count, ACL_MEMCPY_DEVICE_TO_DEVICE, stream.stream());
  }

  bool initialized() override { return is_initialized(); }

  void emptyCache(c10::MempoolId_t pool) override {
    if (is_in_bad_fork()) return;
    if (!captures_exist()) release_kept_graphs();
    collect_sent_memory();
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      if (!has_context(device)) continue;
      if (DeviceCache* cache = find_cache(device)) cache->release_cached(pool);
      if (UncachedMemory* memory = UncachedMemory::find(device)) memory->release_cached();
    }
  }

  void recordStream(const at::DataPtr& pointer, c10::Stream stream) override {
    torch_npu::recordStream(pointer, NPUStream(stream));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return with_memory_of(checked_device(device), [](auto& memory) { return memory.stats(); });
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    with_memory_of(checked_device(device), [](auto& memory) { memory.reset_accumulated_stats(); });
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    with_memory_of(checked_device(device), [](auto& memory) { memory.reset_peak_stats(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override { return device_memory(device); }
};

Allocator& allocator() {
  static Allocator* const allocator = new Allocator;
  return *allocator;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, getNPUAllocator())

}  // namespace

c10::DeviceAllocator* getNPUAllocator() { return &allocator(); }

DeviceCache& device_cache(c10::DeviceIndex device) {
  DeviceCache* cache = find_cache(device);
  return cache != nullptr ? *cache : make_cache(device);
}

at::DataPtr allocate_memory(size_t bytes) {
  bind_device();
  const detail::ThreadState& state = detail::thread_state();
  const c10::DeviceIndex device = state.current_device;
  if (bytes == 0) return {nullptr, nullptr, &free_memory, npu_device(device)};
  const c10::StreamId stream = state.current_streams[static_cast<size_t>(device)];
  DeviceCache* cache = open_caches[static_cast<size_t>(device)].load(std::memory_order_acquire);
  if (cache == nullptr) [[unlikely]] {
    if (const AllocatorFunctions* functions = plugged_allocator()) return allocate_plugged(*functions, bytes, device, stream);
    if (UncachedMemory::is_in_use() || !is_caching) return allocate_uncached_memory(bytes, device, stream);
    cache = &device_cache(device);
    open_caches[static_cast<size_t>(device)] = cache;
    if (!is_caching) open_caches[static_cast<size_t>(device)] = nullptr;  // enable_caching() ran concurrently
  }
  Block* block = cache->allocate(bytes, stream);
  report_to_profiler(*cache, block->address, static_cast<int64_t>(block->size), device);
  return {block->address, block, &free_memory, npu_device(device)};
}

bool has_allocated() {
  for (c10::DeviceIndex device = 0; device < kMaxDevices; ++device) {
    if (find_cache(device) != nullptr || UncachedMemory::find(device) != nullptr) return true;
  }
  return false;
}

bool enable_caching(bool enabled) {
  const bool before = is_caching.exchange(enabled);
  for (std::atomic<DeviceCache*>& cache : open_caches) cache = nullptr;  // allocate_memory() sets them again
  return before;
}

void* raw_allocate(size_t bytes, NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  const NPUStream previous = getCurrentNPUStream();
  setCurrentNPUStream(stream);
  const auto restore = c10::make_scope_exit([&] { setCurrentNPUStream(previous); });
  at::DataPtr pointer = allocate_memory(bytes);
  void* const address = pointer.get();
  if (address != nullptr) MemoryByAddress::raw().add(address, pointer.move_context());
  return address;
}

void raw_free(void* address) {
  if (address == nullptr) return;
  const MemoryByAddress::Context context = MemoryByAddress::raw().take(address);
  TORCH_CHECK_VALUE(context != nullptr, "there is no memory at ", address,
                    " that caching_allocator_alloc() gave; it was freed already or came from elsewhere");
}

void make_shareable(at::DataPtr& pointer) {
  if (pointer.get_deleter() != &free_memory && pointer.get_deleter() != &free_uncached_memory) return;
  void* const address = pointer.get();
  if (address == nullptr) return;
  const at::Device device = pointer.device();
  MemoryByAddress::shared().add(address, pointer.move_context());
  pointer = at::DataPtr(address, address, &free_shared_memory, device);
}

void recordStream(const at::DataPtr& pointer, NPUStream stream) {
  const Owner owner = owner_of(pointer);
  if (owner.block != nullptr) return owner.block->cache->device.record_stream(owner.block, stream);
  if (owner.uncached != nullptr) {
    return UncachedMemory::of(owner.uncached->stream.device_index()).record_stream(owner.uncached, stream);
  }
  if (const at::DataPtr* sent = sent_memory_of(pointer)) recordStream(*sent, stream);
}

MemoryRange allocation_of(const at::DataPtr& pointer, size_t bytes) {
  const Owner owner = owner_of(pointer);
  if (owner.uncached != nullptr) return {owner.uncached->address, owner.uncached->size, owner.uncached->stream};
  if (owner.block == nullptr) return {pointer.get(), bytes, getCurrentNPUStream(pointer.device().index())};
  return owner.block->cache->device.segment_of(*owner.block);
}

void set_memory_fraction(double fraction, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "the memory fraction must be from 0 to 1, but is ", fraction);
  with_memory_of(checked_device(device), [&](auto& memory) { memory.set_fraction(fraction); });
}

double memory_fraction(c10::DeviceIndex device) {
  return with_memory_of(checked_device(device), [](auto& memory) { return memory.fraction(); });
}

void change_allocator_settings(const std::string& text) {
  set_allocator_settings(text);
  const bool has_fraction = text.find("per_process_memory_fraction") != std::string::npos;
  for (c10::DeviceIndex device = 0; device < kMaxDevices; ++device) {
    DeviceCache* cache = find_cache(device);
    if (cache == nullptr) continue;
    cache->read_settings();
    if (has_fraction) cache->set_fraction(initial_memory_fraction());
  }
}

void clear_memory_history() {
  for (c10::DeviceIndex device = 0; device < kMaxDevices; ++device) {
    if (DeviceCache* cache = find_cache(device)) cache->clear_history();
  }
}

std::vector<SegmentView> memory_segments(std::optional<c10::MempoolId_t> pool) {
  std::vector<SegmentView> all;
  for (c10::DeviceIndex device = 0; device < kMaxDevices; ++device) {
    DeviceCache* cache = find_cache(device);
    if (cache == nullptr) continue;
    std::vector<SegmentView> segments = cache->segments(pool);
    std::move(segments.begin(), segments.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<MemoryEvent> memory_events(c10::DeviceIndex device) {
  DeviceCache* cache = find_cache(device);
  return cache != nullptr ? cache->events() : std::vector<MemoryEvent>();
}

}  // namespace torch_npu
