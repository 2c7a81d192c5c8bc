// A context: a set of streams of one device.
//
//   Result<Ref<Context>> context = device.create_context();
//   Result<Ref<Stream>> stream = context.value()->create_stream(kHighestPriority);
//   device.destroy_context(context.value());
//
// Each device has a primary context, which all threads get from aclrtSetDevice; clients may create more. Every thread has its own
// current context (thread_state.h).
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

  // Also creates the default stream.
  Status open(StreamDevice& device, Role role);
  // Refuses new streams, waits for all streams if `wait`, and destroys them. Returns the first failure that was not reported yet;
  // the context is closed nevertheless. Several threads may call it at once.
  Status close(bool wait);

  StreamDevice& device() const { return *device_.load(std::memory_order_relaxed); }
  bool is_primary() const { return role_.load(std::memory_order_relaxed) == Role::kPrimary; }
  Stream& default_stream() const { return *default_stream_.load(std::memory_order_relaxed); }

  Result<Ref<Stream>> create_stream(uint32_t priority);
  // Waits for the stream if `wait`. Returns the failure of a task that was not reported yet; the stream is destroyed
  // nevertheless.
  Status destroy_stream(const Ref<Stream>& stream, bool wait);

  // Appends the streams that exist now.
  void list_streams(std::vector<StreamMark>& streams) const;

  // Called after a failure on a stream with stop_on_failure: no task of the context runs any more, and every call that submits or
  // waits returns the failure, until the context is destroyed. Does nothing if `context` is not live.
  static void stop(const Ref<Context>& context, const Status& reason);

  SystemParameters parameters;

 private:
  // Empty if another thread destroys the stream.
  static std::optional<Status> end_stream(const Ref<Stream>& stream, bool wait);
  // Call it with lock_ held.
  void list_streams_locked(std::vector<StreamMark>& streams) const;

  // Atomic, because a call that races with the destruction may read them while the slot is used again.
  std::atomic<StreamDevice*> device_{nullptr};
  std::atomic<Role> role_{Role::kPrimary};
  std::atomic<Stream*> default_stream_{nullptr};

  mutable Lock lock_;  // guards the following; no other lock is taken under it
  bool is_open_ = false;
  std::vector<Ref<Stream>> streams_;  // the default stream is first; a stream is removed before its slot is given back
  Status stop_reason_;                // the failure, if stop() was called
};

using ContextPool = SlotPool<Context, HandleKind::kContext>;
ContextPool& context_pool();

}  // namespace softnpu
