// A context: the streams of one device that belong together.
//
// Each device has a primary context, which aclrtSetDevice shares among all threads; clients may make more. The current context is
// a property of the thread (thread_state.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/futex.h"
#include "runtime/handle.h"
#include "runtime/status.h"
#include "runtime/stream.h"

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
  // Waits for all streams if `wait`, then destroys them. Returns the first failure that nobody had asked for yet; the context is
  // closed all the same.
  Status close(bool wait);

  Device& device() const { return *device_; }
  bool is_primary() const { return role_ == Role::kPrimary; }
  Stream& default_stream() const { return *default_stream_; }

  Result<Stream*> create_stream(uint32_t priority);
  // Waits for the stream if `wait`. The failure of a task that nobody had asked for yet is returned; the stream is destroyed all
  // the same.
  Status destroy_stream(Stream& stream, bool wait);

  // Waits for every stream, then returns one failure; the next call returns the next one.
  Status synchronize(Deadline deadline);
  Status abort(Deadline deadline);
  std::vector<Stream*> streams() const;

  // After a failure on a stream with stop_on_failure nothing runs here any more, and everything that would submit or wait gets
  // the failure, until the context is destroyed.
  void stop(const Status& reason);
  Status stop_reason() const;

  SystemParameters parameters;

 private:
  Device* device_ = nullptr;
  Role role_ = Role::kPrimary;
  Stream* default_stream_ = nullptr;

  mutable Lock lock_;
  std::vector<Stream*> streams_;  // the default stream first; guarded by lock_
  std::atomic<bool> stopped_{false};
  Status stop_reason_;  // guarded by lock_
};

using ContextPool = SlotPool<Context, HandleKind::kContext>;
ContextPool& context_pool();

}  // namespace softnpu
