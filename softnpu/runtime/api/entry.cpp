#include "runtime/api/entry.h"

#include "error_names.h"
#include "runtime/api/error.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::entry {

Status null_argument(const char* name) { return {ACL_ERROR_INVALID_PARAM, text("argument '", name, "' is null")}; }

Status resolve_stream(aclrtStream handle, const char* name, bool nullable, Stream** stream) {
  Result<Context*> context = current_context();
  if (!context.ok()) [[unlikely]] {
    if (handle == nullptr && !nullable) return null_argument(name);
    return context.take_status();
  }
  if (handle == nullptr && nullable) {
    *stream = &context.value()->default_stream();
    return {};
  }
  Stream* found = stream_pool().find(handle);
  if (found == nullptr) [[unlikely]]
    return stream_pool().explain(handle, name);
  if (&found->context() != context.value()) [[unlikely]] {
    return {ACL_ERROR_RT_STREAM_CONTEXT,
            text("argument '", name, "' is a stream of another context (device ", found->device().number(),
                 "), but this thread's context is on device ", context.value()->device().number())};
  }
  *stream = found;
  return {};
}

Status resolve_event(aclrtEvent handle, const char* name, Event** event) {
  *event = event_pool().find(handle);
  return *event != nullptr ? Status() : event_pool().explain(handle, name);
}

Status resolve_context(aclrtContext handle, const char* name, Context** context) {
  *context = context_pool().find(handle);
  return *context != nullptr ? Status() : context_pool().explain(handle, name);
}

Status resolve_graphslot(aclmdlRI handle, const char* name, GraphSlot** graph) {
  *graph = graph_pool().find(handle);
  return *graph != nullptr ? Status() : graph_pool().explain(handle, name);
}

Status resolve_taskgroup(aclrtTaskGrp handle, const char* name, TaskGroup** group) {
  *group = task_group_pool().find(handle);
  return *group != nullptr ? Status() : task_group_pool().explain(handle, name);
}

aclError fail(const char* function, const Status& status) {
  const char* code_name = error_name(status.code());
  // Clients wait in slices, so a time-out is not logged as an error.
  const bool is_timeout = status.code() == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT || status.code() == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
  set_recent_error(text(function, ": ", status.message(), " [", status.code(), code_name != nullptr ? " " : "",
                        code_name != nullptr ? code_name : "", "]"),
                   function, is_timeout ? LogLevel::kInfo : LogLevel::kError);
  thread_state().last_error = status.code();
  return status.code();
}

aclError refuse(const char* function) {
  return fail(function,
              Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not supported by the software device; docs/acl.md lists what is"));
}

}  // namespace softnpu::entry
