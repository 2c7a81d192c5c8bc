// Tells the client about failed tasks as they happen (aclrtSetExceptionInfoCallback).
#pragma once

#include <cstdint>

#include "acl/acl_rt.h"

// What the five aclrtGet...FromExceptionInfo functions read.
struct rtExceptionInfo {
  uint32_t task_id;
  uint32_t stream_id;
  uint32_t thread_id;
  uint32_t device_id;
  uint32_t error_code;
};

namespace softnpu {

// Null unregisters. The callback runs on the thread that ran the task and must not wait for the device.
void set_exception_callback(aclrtExceptionInfoCallback callback);
// Fills in the calling thread's number.
void report_exception(rtExceptionInfo info);

}  // namespace softnpu
