#include "runtime/context.h"

#include <algorithm>
#include <mutex>

#include "runtime/device.h"
#include "runtime/thread_state.h"

namespace softnpu {

Status SystemParameters::set(aclSysParamOpt option, int64_t value) {
  if (size_t(option) >= kCount)
    return {ACL_ERROR_RT_PARAM_INVALID, text("option ", int(option), " is unknown; there are 0 to ", kCount - 1)};
  if (value != 0 && value != 1) return {ACL_ERROR_RT_PARAM_INVALID, text("value ", value, " is neither 0 nor 1")};
  values_[size_t(option)].store(value, std::memory_order_relaxed);
  return {};
}

void SystemParameters::reset() {
  for (std::atomic<int64_t>& value : values_) value.store(kUnset, std::memory_order_relaxed);
}

Result<int64_t> SystemParameters::get(aclSysParamOpt option) const {
  if (size_t(option) >= kCount)
    return Status(ACL_ERROR_RT_PARAM_INVALID, text("option ", int(option), " is unknown; there are 0 to ", kCount - 1));
  const int64_t value = values_[size_t(option)].load(std::memory_order_relaxed);
  if (value == kUnset) return Status(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, text("option ", int(option), " was never set"));
  return value;
}

Status Context::open(Device& device, Role role) {
  device_ = &device;
  role_ = role;
  stopped_.store(false, std::memory_order_relaxed);
  stop_reason_ = Status();
  parameters.reset();
  Result<Stream*> made = create_stream(kHighestPriority);
  if (!made.ok()) return made.take_status();
  default_stream_ = made.value();
  return {};
}

Status Context::close(bool wait) {
  Status first;
  std::vector<Stream*> all = streams();
  std::reverse(all.begin(), all.end());  // the default stream last
  for (Stream* stream : all) {
    Status status = destroy_stream(*stream, wait);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Result<Stream*> Context::create_stream(uint32_t priority) {
  SOFTNPU_RETURN_IF_ERROR(stop_reason());
  Stream* stream = stream_pool().take();
  if (stream == nullptr) return Status(ACL_ERROR_RT_NO_STREAM_RESOURCE, "the process has too many streams; destroy some");
  if (Status status = stream->open(*this, priority); !status.ok()) {
    stream_pool().give_back(*stream);
    return status;
  }
  stream_pool().publish(*stream);
  std::lock_guard guard(lock_);
  streams_.push_back(stream);
  return stream;
}

Status Context::destroy_stream(Stream& stream, bool wait) {
  const uint32_t generation = stream.generation();
  Status status;
  if (wait) status = stream.synchronize(Deadline::never());
  if (!(generation & 1) || !stream_pool().withdraw(stream, generation)) {
    return {ACL_ERROR_RT_INVALID_HANDLE, "the stream is being destroyed by another thread"};
  }
  {
    std::lock_guard guard(lock_);
    std::erase(streams_, &stream);
  }
  stream.close();
  return status;
}

std::vector<Stream*> Context::streams() const {
  std::lock_guard guard(lock_);
  return streams_;
}

Status Context::synchronize(Deadline deadline) {
  for (Stream* stream : streams()) SOFTNPU_RETURN_IF_ERROR(stream->wait(deadline));
  for (Stream* stream : streams()) {
    Status failure = stream->take_failure();
    if (!failure.ok() && !stream->is_lane.load(std::memory_order_relaxed)) return failure;
  }
  return {};
}

Status Context::abort(Deadline deadline) {
  Status first;
  for (Stream* stream : streams()) {
    Status status = stream->abort(ACL_ERROR_RT_DEVICE_TASK_ABORT, deadline);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

void Context::stop(const Status& reason) {
  {
    std::lock_guard guard(lock_);
    if (stopped_.load(std::memory_order_relaxed)) return;
    stop_reason_ =
        Status(reason.code(), text("the context was stopped by an earlier failure and must be reset: ", reason.message()));
    stopped_.store(true, std::memory_order_release);
  }
  for (Stream* stream : streams()) stream->queue().stop(reason);
}

Status Context::stop_reason() const {
  if (!stopped_.load(std::memory_order_acquire)) [[likely]]
    return {};
  std::lock_guard guard(lock_);
  return stop_reason_.copy();
}

ContextPool& context_pool() {
  static auto* pool = new ContextPool;
  return *pool;
}

}  // namespace softnpu
