// Streams: creating, synchronising, attributes.
#include "runtime/stream/stream.h"

#include "api.h"
#include "runtime/device/device.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/context.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {
namespace {

constexpr uint32_t kStreamFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |
                                  ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

Status check_switch(uint32_t value) {
  if (value <= 1) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text("value ", value, " is neither 0 (off) nor 1 (on)")};
}

Status check_not_default(const Stream& stream) {
  if (&stream != &stream.context().default_stream()) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, "the default stream belongs to its context and is destroyed with it"};
}

}  // namespace

Status aclrtCreateStream(aclrtStream* stream) { return api::aclrtCreateStreamWithConfig(stream, kHighestPriority, 0); }

Status aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  if (priority > kLowestPriority)
    return {ACL_ERROR_RT_PARAM_INVALID, text("priority ", priority, " is not 0 (highest) to ", kLowestPriority)};
  if (flag & ~kStreamFlags)
    return {ACL_ERROR_RT_PARAM_INVALID, text("flag ", flag, " has unknown bits; ACL_STREAM_* lists the known ones")};
  Result<Ref<Stream>> made = context.value()->create_stream(priority);
  if (!made.ok()) return made.take_status();
  *stream = StreamPool::handle_of(made.value());
  return {};
}

Status aclrtDestroyStream(Stream& stream) {
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  SOFTNPU_RETURN_IF_ERROR(check_not_default(stream));
  return stream.context().destroy_stream(Ref<Stream>(stream), /*wait=*/true);
}

Status aclrtDestroyStreamForce(Stream& stream) {
  SOFTNPU_RETURN_IF_ERROR(check_not_default(stream));
  return stream.context().destroy_stream(Ref<Stream>(stream), /*wait=*/false);
}

Status aclrtSynchronizeStream(Stream& stream) { return stream.synchronize(Deadline::never()); }

Status aclrtSynchronizeStreamWithTimeout(Stream& stream, int32_t timeout) {
  const Ticket newest = stream.queue().submitted();
  // Avoids reading the clock, which would take longer than the rest of the call.
  if (timeout >= 0 && stream.queue().reached(newest)) return stream.synchronize(newest, Deadline::never());
  Result<Deadline> deadline = Deadline::after_milliseconds(timeout);
  if (!deadline.ok()) return deadline.take_status();
  return stream.synchronize(newest, deadline.value());
}

Status aclrtStreamQuery(Stream& stream, aclrtStreamStatus* status) {
  if (stream.is_recorded.load(std::memory_order_relaxed)) SOFTNPU_RETURN_IF_ERROR(captures().refuse_wait(stream, "asking about"));
  *status = stream.query() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return {};
}

Status aclrtStreamGetId(Stream& stream, int32_t* streamId) {
  *streamId = stream.id();
  return {};
}

Status aclrtSetStreamFailureMode(Stream& stream, uint64_t mode) {
  if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("mode ", mode, " is neither 0 (continue on failure) nor 1 (stop on failure)")};
  }
  stream.stop_on_failure.store(mode == ACL_STOP_ON_FAILURE, std::memory_order_relaxed);
  return {};
}

Status aclrtSetStreamOverflowSwitch(Stream& stream, uint32_t flag) {
  SOFTNPU_RETURN_IF_ERROR(check_switch(flag));
  stream.overflow_switch.store(flag, std::memory_order_relaxed);
  return {};
}

Status aclrtGetStreamOverflowSwitch(Stream& stream, uint32_t* flag) {
  *flag = stream.overflow_switch.load(std::memory_order_relaxed);
  return {};
}

Status aclrtSetStreamAttribute(Stream& stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue* value) {
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      return api::aclrtSetStreamFailureMode(stream, value->failureMode);
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      return api::aclrtSetStreamOverflowSwitch(stream, value->overflowSwitch);
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      stream.custom_tag.store(value->userCustomTag, std::memory_order_relaxed);
      return {};
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      SOFTNPU_RETURN_IF_ERROR(check_switch(value->cacheOpInfoSwitch));
      stream.cache_op_info.store(value->cacheOpInfoSwitch, std::memory_order_relaxed);
      return {};
    case ACL_STREAM_ATTR_PRIORITY:
      return {ACL_ERROR_RT_PARAM_INVALID, "a stream's priority is set when it is created"};
    default:
      return {ACL_ERROR_RT_PARAM_INVALID, text("attribute ", int(stmAttrType), " is unknown; it is one of aclrtStreamAttr")};
  }
}

Status aclrtGetStreamAttribute(Stream& stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue* value) {
  *value = {};
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      value->failureMode = stream.stop_on_failure.load(std::memory_order_relaxed) ? ACL_STOP_ON_FAILURE : ACL_CONTINUE_ON_FAILURE;
      return {};
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      value->overflowSwitch = stream.overflow_switch.load(std::memory_order_relaxed);
      return {};
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      value->userCustomTag = stream.custom_tag.load(std::memory_order_relaxed);
      return {};
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      value->cacheOpInfoSwitch = stream.cache_op_info.load(std::memory_order_relaxed);
      return {};
    case ACL_STREAM_ATTR_PRIORITY:
      value->streamPriority = stream.priority();
      return {};
    default:
      return {ACL_ERROR_RT_PARAM_INVALID, text("attribute ", int(stmAttrType), " is unknown; it is one of aclrtStreamAttr")};
  }
}

Status aclrtSetStreamResLimit(Stream& stream, aclrtDevResLimitType type, uint32_t value) {
  SOFTNPU_RETURN_IF_ERROR(check_core_limit(type, value));
  stream.core_limits[type].store(value, std::memory_order_relaxed);
  return {};
}

Status aclrtGetStreamResLimit(Stream& stream, aclrtDevResLimitType type, uint32_t* value) {
  SOFTNPU_RETURN_IF_ERROR(check_core_kind(type));
  *value = stream.core_limits[type].load(std::memory_order_relaxed);
  return {};
}

Status aclrtResetStreamResLimit(Stream& stream) {
  stream.reset_core_limits();
  return {};
}

Status aclrtUseStreamResInCurrentThread(Stream& stream) {
  thread_state().limits_stream = Ref<Stream>(stream);
  return {};
}

Status aclrtUnuseStreamResInCurrentThread(Stream& stream) {
  ThreadState& state = thread_state();
  if (state.limits_stream.object != &stream)
    return {ACL_ERROR_RT_PARAM_INVALID, "this thread does not use the limits of that stream"};
  state.limits_stream = {};
  return {};
}

Status aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_core_kind(type));
  const ThreadState& state = thread_state();
  const CoreLimits& limits =
      state.limits_stream.is_live() ? state.limits_stream->core_limits : context.value()->device().core_limits;
  *value = limits[type].load(std::memory_order_relaxed);
  return {};
}

Status aclrtStreamAbort(Stream& stream) {
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  return stream.abort(ACL_ERROR_RT_STREAM_ABORT, Deadline::never());
}

}  // namespace softnpu::api
