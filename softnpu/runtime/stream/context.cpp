#include "runtime/stream/context.h"

#include <algorithm>
#include <mutex>

#include "runtime/stream/thread_state.h"

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

Status Context::open(StreamDevice& device, Role role) {
  device_.store(&device, std::memory_order_relaxed);
  role_.store(role, std::memory_order_relaxed);
  {
    std::lock_guard guard(lock_);
    is_open_ = true;
    stop_reason_ = Status();
  }
  parameters.reset();
  Result<Ref<Stream>> made = create_stream(kHighestPriority);
  if (!made.ok()) return made.take_status();
  default_stream_.store(made.value().object, std::memory_order_relaxed);
  return {};
}

Status Context::close(bool wait) {
  std::vector<Ref<Stream>> all;
  {
    std::lock_guard guard(lock_);
    is_open_ = false;
    all = streams_;
  }
  std::reverse(all.begin(), all.end());  // the default stream last
  Status first;
  for (const Ref<Stream>& stream : all) {
    std::optional<Status> status = end_stream(stream, wait);
    if (status && first.ok()) first = std::move(*status);
  }
  return first;
}

Result<Ref<Stream>> Context::create_stream(uint32_t priority) {
  Stream* stream = stream_pool().take();
  if (stream == nullptr) return Status(ACL_ERROR_RT_NO_STREAM_RESOURCE, "the process has too many streams; destroy some");
  const Ref<Context> owner(*this, generation() | 1);  // the default stream is created before publish() makes the generation odd
  if (Status status = stream->open(owner, priority); !status.ok()) {
    stream_pool().give_back(*stream);
    return status;
  }
  const Ref<Stream> made = stream_pool().publish(*stream);
  Status refused;
  {
    std::lock_guard guard(lock_);
    if (!is_open_) {
      refused = {ACL_ERROR_RT_CONTEXT_NULL, "the context was destroyed while the stream was made"};
    } else if (!stop_reason_.ok()) {
      refused = stop_reason_.copy();
    } else {
      streams_.push_back(made);
    }
  }
  if (refused.ok()) return made;
  if (stream_pool().withdraw(made)) made->close();
  return refused;
}

Status Context::destroy_stream(const Ref<Stream>& stream, bool wait) {
  if (std::optional<Status> status = end_stream(stream, wait)) return std::move(*status);
  return {ACL_ERROR_RT_INVALID_HANDLE, "the stream is being destroyed by another thread"};
}

std::optional<Status> Context::end_stream(const Ref<Stream>& stream, bool wait) {
  Status status;
  if (wait) {
    const Ticket newest = stream->queue().submitted();
    if (!stream.is_live()) return std::nullopt;
    status = stream->synchronize(newest, Deadline::never());
  }
  if (!stream_pool().withdraw(stream)) return std::nullopt;
  {
    Context& owner = stream->context();  // differs from this context if the slot was reused since the caller found the stream
    std::lock_guard guard(owner.lock_);
    std::erase_if(owner.streams_, [&](const Ref<Stream>& other) { return other.object == stream.object; });
  }
  stream->close();
  return status;
}

void Context::list_streams(std::vector<StreamMark>& streams) const {
  std::lock_guard guard(lock_);
  list_streams_locked(streams);
}

void Context::list_streams_locked(std::vector<StreamMark>& streams) const {
  for (const Ref<Stream>& stream : streams_) streams.push_back({stream, stream->queue().life(), stream->queue().submitted()});
}

void Context::stop(const Ref<Context>& context, const Status& reason) {
  std::vector<StreamMark> streams;
  const Status stop_reason(reason.code(),
                           text("the context was stopped by an earlier failure and must be reset: ", reason.message()));
  {
    std::lock_guard guard(context->lock_);
    if (!context.is_live() || !context->stop_reason_.ok()) return;
    context->stop_reason_ = stop_reason.copy();
    context->list_streams_locked(streams);
  }
  for (const StreamMark& mark : streams) mark.stream->queue().stop(stop_reason, mark.life);
}

ContextPool& context_pool() {
  static auto* pool = new ContextPool;
  return *pool;
}

}  // namespace softnpu
