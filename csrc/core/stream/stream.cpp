#include "core/stream/stream.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "acl/symbol.h"
#include "base/options.h"
#include "core/stream/after_synchronize.h"
#include "core/stream/event.h"
#include "core/stream/known_streams.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

constexpr size_t kPoolSize = 32;

// A StreamId is 4 * index + kind. The default stream is the only one with id 0.
enum class Kind { kDefault, kNormal, kHigh, kExternal };

Kind kind_of(c10::StreamId id) { return static_cast<Kind>(id & 3); }
size_t index_of(c10::StreamId id) { return static_cast<size_t>(id) >> 2; }
c10::StreamId make_id(Kind kind, size_t index) { return static_cast<c10::StreamId>(index << 2 | static_cast<size_t>(kind)); }

struct Pool {
  std::array<std::atomic<aclrtStream>, kPoolSize> streams{};
  std::atomic<uint32_t> next{0};
};

struct Pools {
  Pool normal, high;
};

constinit std::array<Pools, kMaxDevices> pools{};

Pool& pool_of(c10::DeviceIndex device, Kind kind) {
  Pools& both = pools.at(static_cast<size_t>(device));
  return kind == Kind::kHigh ? both.high : both.normal;
}

aclrtStream create_stream(c10::DeviceIndex device, Kind kind) {
  const BoundDevice bound(device);
  int32_t least = 0, greatest = 0;
  ACL_CALL(aclrtDeviceGetStreamPriorityRange, &least, &greatest);
  const auto priority = static_cast<uint32_t>(kind == Kind::kHigh ? greatest : least);
  aclrtStream stream = nullptr;
  ACL_CALL(aclrtCreateStreamWithConfig, &stream, priority, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
  return stream;
}

aclrtStream pooled(c10::DeviceIndex device, Kind kind, size_t index) {
  std::atomic<aclrtStream>& slot = pool_of(device, kind).streams.at(index);
  if (aclrtStream stream = slot.load(std::memory_order_acquire)) return stream;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (aclrtStream stream = slot.load(std::memory_order_acquire)) return stream;
  aclrtStream stream = create_stream(device, kind);
  slot.store(stream, std::memory_order_release);
  return stream;
}

class ExternalStreams {
 public:
  static ExternalStreams& get() {
    static ExternalStreams* const streams = new ExternalStreams;
    return *streams;
  }

  // A handle keeps the device of its first call.
  size_t index(aclrtStream handle, c10::DeviceIndex device) {
    const std::unique_lock lock(mutex_);
    const auto [entry, is_new] = indices_.try_emplace(handle, streams_.size());
    if (is_new) streams_.push_back({handle, device});
    return entry->second;
  }

  aclrtStream handle(size_t index) {
    const std::shared_lock lock(mutex_);
    return index < streams_.size() ? streams_[index].handle : nullptr;
  }

  void add_those_of(c10::DeviceIndex device, std::vector<NPUStream>& streams) {
    const std::shared_lock lock(mutex_);
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i].device == device) streams.emplace_back(device, make_id(Kind::kExternal, i));
    }
  }

 private:
  struct External {
    aclrtStream handle;
    c10::DeviceIndex device;
  };

  std::shared_mutex mutex_;
  std::vector<External> streams_;
  std::unordered_map<aclrtStream, size_t> indices_;
};

}  // namespace

NPUStream::NPUStream(c10::Stream stream) : stream_(stream) {
  TORCH_CHECK(stream.device_type() == kDeviceType, "expected a stream of an NPU, but got one of ", stream.device());
}

aclrtStream NPUStream::pool_handle() const {
  const Kind kind = kind_of(id());
  const size_t index = index_of(id());
  aclrtStream handle = nullptr;
  if (kind == Kind::kExternal) {
    handle = ExternalStreams::get().handle(index);
  } else if (kind != Kind::kDefault && index < kPoolSize) {
    handle = pooled(device_index(), kind, index);
  }
  TORCH_CHECK(handle != nullptr, "the NPU has no stream with id ", id());
  return handle;
}

int NPUStream::priority() const { return kind_of(id()) == Kind::kHigh ? -1 : 0; }

bool NPUStream::query() const {
  before_wait();
  const BoundDevice bound(device_index());
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  ACL_CALL(aclrtStreamQuery, stream(), &status);
  return status == ACL_STREAM_STATUS_COMPLETE;
}

void NPUStream::synchronize() const {
  before_wait();
  const BoundDevice bound(device_index());
  const aclrtStream handle = stream();
  const auto attempt = [handle](int32_t milliseconds) { return ACL_FN(aclrtSynchronizeStreamWithTimeout)(handle, milliseconds); };
  if (wait_a_slice("aclrtSynchronizeStreamWithTimeout", attempt)) [[likely]]
    return after_synchronize();
  // The wait goes on for a mark, so that it does not include work that other threads submit from now on.
  NPUEvent mark;
  mark.record(*this);
  check_interrupt();
  mark.synchronize();
}

NPUStream getDefaultNPUStream(c10::DeviceIndex device) { return NPUStream(checked_device(device), 0); }

NPUStream getNPUStreamFromPool(bool high_priority, c10::DeviceIndex device) {
  const c10::DeviceIndex index = checked_device(device);
  const Kind kind = high_priority ? Kind::kHigh : Kind::kNormal;
  static const auto streams_in_use = static_cast<size_t>(options().streams_per_device);
  const size_t slot = pool_of(index, kind).next.fetch_add(1, std::memory_order_relaxed) % streams_in_use;
  pooled(index, kind, slot);
  return NPUStream(index, make_id(kind, slot));
}

NPUStream externalStream(aclrtStream handle, c10::DeviceIndex device) {
  const c10::DeviceIndex index = checked_device(device);
  if (handle == nullptr) return NPUStream(index, 0);
  return NPUStream(index, make_id(Kind::kExternal, ExternalStreams::get().index(handle, index)));
}

std::vector<NPUStream> known_streams(c10::DeviceIndex device) {
  std::vector<NPUStream> streams{NPUStream(device, 0)};
  for (const Kind kind : {Kind::kNormal, Kind::kHigh}) {
    for (size_t i = 0; i < kPoolSize; ++i) {
      const bool exists = pool_of(device, kind).streams.at(i).load(std::memory_order_acquire) != nullptr;
      if (exists) streams.emplace_back(device, make_id(kind, i));
    }
  }
  ExternalStreams::get().add_those_of(device, streams);
  return streams;
}

bool is_destroyed(NPUStream stream) noexcept {
  try {
    const BoundDevice bound(stream.device_index());
    aclrtStreamStatus status{};
    if (ACL_FN(aclrtStreamQuery)(stream.stream(), &status) != ACL_ERROR_RT_INVALID_HANDLE) return false;
    ACL_FN(aclGetRecentErrMsg)();  // clears the message: it must not appear in a later error
    return true;
  } catch (const std::exception&) {  // the device library may be gone at exit
    return false;
  }
}

void setCurrentNPUStream(NPUStream stream) {
  const c10::DeviceIndex device = checked_device(stream.device_index());
  detail::thread_state().current_streams[static_cast<size_t>(device)] = static_cast<int32_t>(stream.id());
}

}  // namespace torch_npu
