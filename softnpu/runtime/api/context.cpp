// Contexts and system parameters.
#include "runtime/stream/context.h"

#include "api.h"
#include "runtime/device/device.h"
#include "runtime/device/process.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {

Status aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  Result<Ref<Context>> made = device.value()->create_context();
  if (!made.ok()) return made.take_status();
  set_current_context(made.value());
  *context = ContextPool::handle_of(made.value());
  return {};
}

Status aclrtDestroyContext(Context& context) {
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  return device_of(context).destroy_context(Ref<Context>(context));
}

Status aclrtSetCurrentContext(Context& context) {
  set_current_context(Ref<Context>(context));
  return {};
}

Status aclrtGetCurrentContext(aclrtContext* context) {
  Result<Context*> current = current_context();
  if (!current.ok()) return current.take_status();
  *context = ContextPool::handle_of(thread_state().context);
  return {};
}

Status aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  Result<Device*> device = find_device(deviceId);
  if (!device.ok()) return device.take_status();
  if (flags != nullptr) *flags = 0;
  *active = device.value()->primary_is_active();
  return {};
}

Status aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  return context.value()->parameters.set(opt, value);
}

Status aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  Result<int64_t> found = context.value()->parameters.get(opt);
  if (!found.ok()) return found.take_status();
  *value = found.value();
  return {};
}

Status aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) { return Process::parameters().set(opt, value); }

Status aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  Result<int64_t> found = Process::parameters().get(opt);
  if (!found.ok()) return found.take_status();
  *value = found.value();
  return {};
}

}  // namespace softnpu::api
