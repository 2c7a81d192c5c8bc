// Calls the client's callback when a task fails (aclrtSetExceptionInfoCallback).
#pragma once

#include <cstdint>

#include "acl/acl_rt.h"

// The information that the five aclrtGet...FromExceptionInfo functions return.
struct rtExceptionInfo {
  uint32_t task_id;
  uint32_t stream_id;
  uint32_t thread_id;
  uint32_t device_id;
  uint32_t error_code;
};

namespace softnpu {

// Null removes the callback. It runs on the thread that ran the task and must not wait for the device.
void set_exception_callback(aclrtExceptionInfoCallback callback);
// Sets `thread_id` and calls the callback, if there is one.
void report_exception(rtExceptionInfo info);

}  // namespace softnpu
