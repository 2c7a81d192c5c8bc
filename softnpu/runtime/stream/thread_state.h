// What the device remembers about each host thread: its current context and its last errors.
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

// Only its own thread touches it. Made at the thread's first call, gone with the thread.
struct ThreadState {
  Ref<Context> context;       // not live: the thread has no current context
  Ref<Stream> limits_stream;  // aclrtUseStreamResInCurrentThread

  std::string recent_error;  // what aclGetRecentErrMsg will hand out
  std::string handed_out;    // what it handed out last: valid until its next call
  aclError last_error = ACL_SUCCESS;

  bool in_host_callback = false;
  TaskQueue* works_for = nullptr;  // the queue whose worker this thread is
  aclmdlRICaptureMode capture_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  std::array<uintptr_t, 4> known_pages{1, 1, 1, 1};  // host pages that were found mapped (host_probe.h); 1 is none
  uint32_t next_known_page = 0;
};

ThreadState& thread_state();

// The context that the calling thread set, or ACL_ERROR_RT_CONTEXT_NULL.
Result<Context*> current_context();
void set_current_context(const Ref<Context>& context);

// Refuses what would wait for the device inside a host callback: the stream that runs the callback would wait for itself.
Status check_may_wait();

}  // namespace softnpu
