#include "core/allocator.h"

#include <c10/core/AllocatorConfig.h>

#include <atomic>
#include <unordered_map>

#include "acl/symbol.h"
#include "core/device_cache.h"
#include "core/options.h"
#include "core/uncached_memory.h"

namespace torch_npu {
namespace {

constinit std::array<std::atomic<DeviceCache*>, kMaxDevices> caches{};

void read_settings() {
  if (options().allocator.empty()) return;
  try {
    c10::CachingAllocator::setAllocatorSettings(options().allocator);
  } catch (const c10::Error& error) {
    TORCH_WARN("the environment variable PYTORCH_NPU_ALLOC_CONF is '", options().allocator,
               "', of which PyTorch says: ", error.what_without_backtrace(), " The default is used.");
  }
}

// Leaked, as memory is freed until the end of the process.
DeviceCache& make_cache(c10::DeviceIndex device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::atomic<DeviceCache*>& slot = caches[static_cast<size_t>(device)];
  if (DeviceCache* cache = slot.load(std::memory_order_acquire)) return *cache;
  static std::once_flag once;
  std::call_once(once, read_settings);
  auto* cache = new DeviceCache(device);
  slot.store(cache, std::memory_order_release);
  return *cache;
}

DeviceCache* find_cache(c10::DeviceIndex device) { return caches[static_cast<size_t>(device)].load(std::memory_order_acquire); }

DeviceCache& cache_of(c10::DeviceIndex device) {
  DeviceCache* cache = find_cache(device);
  return cache != nullptr ? *cache : make_cache(device);
}

// Calls `action` with what manages the memory of `device`.
template <typename Action>
auto with_memory_of(c10::DeviceIndex device, Action&& action) {
  if (UncachedMemory::is_in_use()) return action(UncachedMemory::of(device));
  return action(cache_of(device));
}

template <typename Memory>
void report_to_profiler(Memory& memory, void* address, int64_t bytes, c10::DeviceIndex device) {
  if (!c10::memoryProfilingEnabled()) [[likely]]
    return;
  const auto [allocated, reserved] = memory.usage();
  c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved, npu_device(device));
}

// The context of memory is its block.
void free_memory(void* context) {
  if (is_in_bad_fork()) return;
  auto* block = static_cast<Block*>(context);
  const StreamCache& stream = *block->cache;
  void* const address = block->address;
  const auto bytes = static_cast<int64_t>(block->size);
  stream.device.free(block);
  report_to_profiler(stream.device, address, -bytes, stream.stream.device_index());
}

void free_uncached_memory(void* context) {
  if (is_in_bad_fork()) return;
  auto* piece = static_cast<UncachedMemory::Piece*>(context);
  const c10::DeviceIndex device = piece->stream.device_index();
  void* const address = piece->address;
  const auto bytes = static_cast<int64_t>(piece->size);
  UncachedMemory& memory = UncachedMemory::of(device);
  memory.free(piece);
  report_to_profiler(memory, address, -bytes, device);
}

at::DataPtr allocate_uncached_memory(size_t bytes, c10::DeviceIndex device, c10::StreamId stream) {
  UncachedMemory& memory = UncachedMemory::of(device);
  UncachedMemory::Piece* piece = memory.allocate(bytes, stream);
  report_to_profiler(memory, piece->address, static_cast<int64_t>(piece->size), device);
  return {piece->address, piece, &free_uncached_memory, npu_device(device)};
}

// Memory whose context is its own address, by which the one that frees it is found.
class SharedMemory {
 public:
  using Context = std::unique_ptr<void, c10::DeleterFnPtr>;

  static SharedMemory& get() {
    static SharedMemory* const memory = new SharedMemory;
    return *memory;
  }

  void add(void* address, Context context) {
    const std::lock_guard lock(mutex_);
    contexts_.emplace(address, std::move(context));
  }
  Context take(void* address) {
    const std::lock_guard lock(mutex_);
    return std::move(contexts_.extract(address).mapped());
  }
  // Null if `address` is not shared.
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

void free_shared_memory(void* address) { SharedMemory::get().take(address).reset(); }

struct Allocator final : c10::DeviceAllocator {
  at::DataPtr allocate(size_t bytes) override { return allocate_memory(bytes); }

  bool is_simple_data_ptr(const at::DataPtr& pointer) const override {
    if (pointer.get_deleter() == &free_memory) return pointer.get_context() == nullptr;  // no memory at all
    return pointer.get_deleter() == &free_shared_memory;                                 // see make_shareable()
  }

  void copy_data(void* destination, const void* source, size_t count) const override {
    if (count == 0) return;
    const NPUStream stream = getCurrentNPUStream();
    ACL_CALL(aclrtMemcpyAsync, destination, count, source, count, ACL_MEMCPY_DEVICE_TO_DEVICE, stream.stream());
  }

  bool initialized() override { return is_initialized(); }

  void emptyCache(c10::MempoolId_t) override {
    if (is_in_bad_fork()) return;
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      if (DeviceCache* cache = find_cache(device)) cache->release_cached();
      if (has_context(device) && UncachedMemory::is_in_use()) UncachedMemory::of(device).release_cached();
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

at::DataPtr allocate_memory(size_t bytes) {
  bind_device();
  const detail::ThreadState& state = detail::thread_state();
  const c10::DeviceIndex device = state.current_device;
  if (bytes == 0) return {nullptr, nullptr, &free_memory, npu_device(device)};
  const c10::StreamId stream = state.current_streams[static_cast<size_t>(device)];
  DeviceCache* cache = find_cache(device);
  if (cache == nullptr) [[unlikely]] {
    if (UncachedMemory::is_in_use()) return allocate_uncached_memory(bytes, device, stream);
    cache = &make_cache(device);
  }
  Block* block = cache->allocate(bytes, stream);
  report_to_profiler(*cache, block->address, static_cast<int64_t>(block->size), device);
  return {block->address, block, &free_memory, npu_device(device)};
}

void make_shareable(at::DataPtr& pointer) {
  if (pointer.get_deleter() != &free_memory && pointer.get_deleter() != &free_uncached_memory) return;
  void* const address = pointer.get();
  if (address == nullptr) return;
  const at::Device device = pointer.device();
  SharedMemory::get().add(address, pointer.move_context());
  pointer = at::DataPtr(address, address, &free_shared_memory, device);
}

void recordStream(const at::DataPtr& pointer, NPUStream stream) {
  void* context = pointer.get_context();
  if (context == nullptr) return;
  c10::DeleterFnPtr deleter = pointer.get_deleter();
  if (deleter != &free_memory && deleter != &free_uncached_memory) {
    context = SharedMemory::get().find(pointer.get(), &deleter);
    if (context == nullptr) return;
  }
  if (deleter == &free_uncached_memory) {
    auto* piece = static_cast<UncachedMemory::Piece*>(context);
    UncachedMemory::of(piece->stream.device_index()).record_stream(piece, stream);
    return;
  }
  auto* block = static_cast<Block*>(context);
  block->cache->device.record_stream(block, stream);
}

void set_memory_fraction(double fraction, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "the memory fraction must be from 0 to 1, but is ", fraction);
  with_memory_of(checked_device(device), [&](auto& memory) { memory.set_fraction(fraction); });
}

double memory_fraction(c10::DeviceIndex device) {
  return with_memory_of(checked_device(device), [](auto& memory) { return memory.fraction(); });
}

}  // namespace torch_npu
