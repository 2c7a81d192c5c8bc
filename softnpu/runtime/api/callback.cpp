// Host callbacks, recent errors, and the exception callback.
#include "runtime/stream/callback.h"

#include "api.h"
#include "runtime/api/error.h"
#include "runtime/stream/exception.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {

Status aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, Stream& stream) {
  if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK) {
    return {ACL_ERROR_RT_PARAM_INVALID, text("block type ", int(blockType), " is neither 0 (no block) nor 1 (block)")};
  }
  return Reports::instance().launch(stream, fn, userData, blockType == ACL_CALLBACK_BLOCK);
}

Status aclrtSubscribeReport(uint64_t threadId, Stream& stream) { return Reports::instance().subscribe(threadId, stream); }

Status aclrtProcessReport(int32_t timeout) {
  Result<Deadline> deadline = Deadline::after_milliseconds(timeout);
  if (!deadline.ok()) return deadline.take_status();
  return Reports::instance().process(deadline.value());
}

Status aclrtUnSubscribeReport(uint64_t threadId, Stream& stream) { return Reports::instance().unsubscribe(threadId, stream); }

Status aclrtLaunchHostFunc(Stream& stream, aclrtHostFunc fn, void* args) { return launch_host_function(stream, fn, args); }

Status aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  set_exception_callback(callback);
  return {};
}

}  // namespace softnpu::api

const char* aclGetRecentErrMsg() { return softnpu::take_recent_error(); }

// aclrtLastErrLevel has one value; other values are treated as that one.
aclError aclrtGetLastError(aclrtLastErrLevel /*level*/) { return std::exchange(softnpu::thread_state().last_error, ACL_SUCCESS); }

aclError aclrtPeekAtLastError(aclrtLastErrLevel /*level*/) { return softnpu::thread_state().last_error; }

namespace {

constexpr uint32_t kNoInformation = 0xFFFFFFFF;

}  // namespace

uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? kNoInformation : info->task_id;
}

uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? kNoInformation : info->stream_id;
}

uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? kNoInformation : info->thread_id;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? kNoInformation : info->device_id;
}

uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? kNoInformation : info->error_code;
}
