// What the generated C functions (entries.cpp) are made of: checks in front of the behaviour, one conversion of failures behind
// it.
#pragma once

#include <exception>

#include "runtime/base/status.h"
#include "runtime/device/process.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/context.h"
#include "runtime/stream/event.h"
#include "runtime/stream/graph.h"
#include "runtime/stream/stream.h"

namespace softnpu::entry {

inline Status ready() { return Process::ready(); }
Status null_argument(const char* name);

// The object behind a handle, or why there is none. A stream must belong to the current context; a null stream, where that is
// allowed, is the current context's default stream.
Status resolve_stream(aclrtStream handle, const char* name, bool nullable, Stream** stream);
Status resolve_event(aclrtEvent handle, const char* name, Event** event);
Status resolve_context(aclrtContext handle, const char* name, Context** context);
Status resolve_graphslot(aclmdlRI handle, const char* name, GraphSlot** graph);
Status resolve_taskgroup(aclrtTaskGrp handle, const char* name, TaskGroup** group);

// Keeps a failure for aclGetRecentErrMsg and aclrtGetLastError, writes it to the log and returns its code.
aclError fail(const char* function, const Status& status);
inline aclError finish(const char* function, const Status& status) {
  if (status.ok()) [[likely]]
    return ACL_SUCCESS;
  return fail(function, status);
}

// "Not supported": the function exists in AscendCL but not in this device.
aclError refuse(const char* function);

// Runs `body` and finishes; no exception passes the C boundary.
template <typename Body>
aclError guarded(const char* function, Body body) {
  try {
    return finish(function, body());
  } catch (const std::bad_alloc&) {
    return fail(function, Status(ACL_ERROR_BAD_ALLOC, "the host has no memory left for the device library's own data"));
  } catch (const std::exception& error) {
    return fail(function, Status(ACL_ERROR_INTERNAL_ERROR, error.what()));
  }
}

}  // namespace softnpu::entry
