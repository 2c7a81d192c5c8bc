// The state of each host thread: its current context and its last errors.
//
//   Result<Context*> context = current_context();
//   thread_state().last_error = ACL_SUCCESS;
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "acl/acl_base.h"
#include "acl/acl_mdl.h"
#include "runtime/base/handle.h"
#include "runtime/base/status.h"

namespace softnpu {

class Context;
class Stream;
class TaskQueue;

// Only its own thread accesses it. Created at the first call of the thread, deleted when the thread ends.
struct ThreadState {
  Ref<Context> context;       // not live if the thread has no current context
  Ref<Stream> limits_stream;  // aclrtUseStreamResInCurrentThread

  std::string recent_error;  // the next result of aclGetRecentErrMsg
  std::string handed_out;    // its last result, which is valid until the next call
  aclError last_error = ACL_SUCCESS;

  bool in_host_callback = false;
  TaskQueue* works_for = nullptr;  // the queue whose worker thread this is; null on other threads
  aclmdlRICaptureMode capture_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::array<uintptr_t, 4> known_pages{1, 1, 1, 1};  // host pages that were checked (host_probe.h); 1 means none
  uint32_t next_known_page = 0;
};

ThreadState& thread_state();

// The current context of the calling thread, or ACL_ERROR_RT_CONTEXT_NULL.
Result<Context*> current_context();
void set_current_context(const Ref<Context>& context);

// Fails inside a host callback, where a wait for the device could be a deadlock: the stream would wait for its own callback.
Status check_may_wait();

}  // namespace softnpu
