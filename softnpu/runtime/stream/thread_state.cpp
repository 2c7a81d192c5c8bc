#include "runtime/stream/thread_state.h"

#include <pthread.h>

#include "runtime/stream/context.h"

namespace softnpu {
namespace {

// Only a pointer, because little of the static TLS block is free in a process that has loaded PyTorch.
__attribute__((tls_model("initial-exec"))) thread_local ThreadState* t_state = nullptr;

ThreadState* make_state() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void* state) {
      t_state = nullptr;
      delete static_cast<ThreadState*>(state);
    });
    return made;
  }();
  t_state = new ThreadState;
  pthread_setspecific(key, t_state);
  return t_state;
}

}  // namespace

ThreadState& thread_state() {
  if (t_state != nullptr) [[likely]]
    return *t_state;
  return *make_state();
}

Result<Context*> current_context() {
  const ThreadState& state = thread_state();
  if (state.context.is_live()) [[likely]]
    return state.context.object;
  const char* message = state.context.object == nullptr
                            ? "this thread has no current device; call aclrtSetDevice or aclrtSetCurrentContext first"
                            : "the context of this thread was destroyed; call aclrtSetDevice or aclrtSetCurrentContext";
  return Status(ACL_ERROR_RT_CONTEXT_NULL, message);
}

void set_current_context(const Ref<Context>& context) { thread_state().context = context; }

Status check_may_wait() {
  if (!thread_state().in_host_callback) [[likely]]
    return {};
  return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a host callback must not wait for the device: its stream would wait for itself"};
}

}  // namespace softnpu
