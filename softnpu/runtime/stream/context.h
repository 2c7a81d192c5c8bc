// A context: the streams of one device that belong together.
//
// Each device has a primary context, which aclrtSetDevice shares among all threads; clients may make more. The current context is
// a property of the thread (thread_state.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/futex.h"
#include "runtime/base/handle.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream.h"

namespace softnpu {

class Device;

// Values of aclSysParamOpt.
class SystemParameters {
 public:
  SystemParameters() { reset(); }
  void reset();
  Status set(aclSysParamOpt option, int64_t value);
  Result<int64_t> get(aclSysParamOpt option) const;

 private:
  static constexpr size_t kCount = 4;
  static constexpr int64_t kUnset = -1;
  std::array<std::atomic<int64_t>, kCount> values_;
};

// Thread-safe.
class Context : public Slot {
 public:
  enum class Role { kPrimary, kMade };

  // Makes the default stream.
  Status open(Device& device, Role role);
  // Refuses new streams. Waits for all streams if `wait`, then destroys them. Returns the first failure that nobody had asked for
  // yet; the context is closed all the same. Several threads may close it at once.
  Status close(bool wait);

  Device& device() const { return *device_.load(std::memory_order_relaxed); }
  bool is_primary() const { return role_.load(std::memory_order_relaxed) == Role::kPrimary; }
  Stream& default_stream() const { return *default_stream_.load(std::memory_order_relaxed); }

  Result<Ref<Stream>> create_stream(uint32_t priority);
  // Waits for the stream if `wait`. The failure of a task that nobody had asked for yet is returned; the stream is destroyed all
  // the same.
  Status destroy_stream(const Ref<Stream>& stream, bool wait);

  // Adds the streams that exist now.
  void list_streams(std::vector<StreamMark>& streams) const;

  // After a failure on a stream with stop_on_failure nothing runs here any more, and everything that would submit or wait gets
  // the failure, until the context is destroyed. Nothing happens to a context of another life.
  static void stop(const Ref<Context>& context, const Status& reason);

  SystemParameters parameters;

 private:
  // Nothing if another thread destroys the stream.
  static std::optional<Status> end_stream(const Ref<Stream>& stream, bool wait);
  // With lock_ held.
  void list_streams_locked(std::vector<StreamMark>& streams) const;

  // Atomic: a call that races with destroy() may read them while the next life begins.
  std::atomic<Device*> device_{nullptr};
  std::atomic<Role> role_{Role::kPrimary};
  std::atomic<Stream*> default_stream_{nullptr};

  mutable Lock lock_;  // guards the following; no other lock is taken under it
  bool is_open_ = false;
  std::vector<Ref<Stream>> streams_;  // the default stream first. A stream leaves the list before its slot can be reused
  Status stop_reason_;                // of this life, if it was stopped
};

using ContextPool = SlotPool<Context, HandleKind::kContext>;
ContextPool& context_pool();

}  // namespace softnpu
