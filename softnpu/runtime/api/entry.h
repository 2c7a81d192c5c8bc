// Parts of the generated C functions (entries.cpp): the checks of arguments, and the conversion of a Status to an aclError.
//
//   aclError aclrtSynchronizeStream(aclrtStream stream) {
//     return entry::guarded("aclrtSynchronizeStream", [&]() -> Status {
//       SOFTNPU_RETURN_IF_ERROR(entry::ready());
//       Stream* object = nullptr;
//       SOFTNPU_RETURN_IF_ERROR(entry::resolve_stream(stream, "stream", /*nullable=*/true, &object));
//       return api::aclrtSynchronizeStream(*object);
//     });
//   }
#pragma once

#include <exception>

#include "runtime/base/status.h"
#include "runtime/device/process.h"
#include "runtime/profile/recorder.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/context.h"
#include "runtime/stream/event.h"
#include "runtime/stream/graph.h"
#include "runtime/stream/stream.h"

namespace softnpu::entry {

inline Status ready() { return Process::ready(); }
Status null_argument(const char* name);

// Find the object of a handle. A stream must belong to the current context. A null stream, if `nullable`, is the default stream
// of the current context.
Status resolve_stream(aclrtStream handle, const char* name, bool nullable, Stream** stream);
Status resolve_event(aclrtEvent handle, const char* name, Event** event);
Status resolve_context(aclrtContext handle, const char* name, Context** context);
Status resolve_graphslot(aclmdlRI handle, const char* name, GraphSlot** graph);
Status resolve_taskgroup(aclrtTaskGrp handle, const char* name, TaskGroup** group);

// Stores a failure for aclGetRecentErrMsg and aclrtGetLastError, writes it to the log and returns its code.
aclError fail(const char* function, const Status& status);
inline aclError finish(const char* function, const Status& status) {
  if (status.ok()) [[likely]]
    return ACL_SUCCESS;
  return fail(function, status);
}

// Fails with "not supported", for functions of AscendCL that this device does not offer.
aclError refuse(const char* function);

// Runs `body` and converts its Status. Exceptions become failures, since none may pass the C interface.
template <typename Body>
aclError guarded(const char* function, Body body) {
  const CallRecord call(function);
  try {
    return finish(function, body());
  } catch (const std::bad_alloc&) {
    return fail(function, Status(ACL_ERROR_BAD_ALLOC, "the host has no memory left for the device library's own data"));
  } catch (const std::exception& error) {
    return fail(function, Status(ACL_ERROR_INTERNAL_ERROR, error.what()));
  }
}

}  // namespace softnpu::entry
