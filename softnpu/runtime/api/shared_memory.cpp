// Device memory that is shared with other processes.
#include <cstring>
#include <span>
#include <string>

#include "api.h"
#include "runtime/checks/races.h"
#include "runtime/device/device.h"
#include "runtime/memory/ipc_memory.h"
#include "runtime/stream/copy.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {
namespace {

std::string text_of(const char* key) { return {key, strnlen(key, ACL_IPC_HANDLE_SIZE)}; }

Status check_flags(uint64_t flags, uint64_t known) {
  if ((flags & ~known) == 0) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text("argument 'flags' (", flags, ") has unknown bits; it is 0 or ", known)};
}

}  // namespace

Status aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key, size_t len, uint64_t flags) {
  SOFTNPU_RETURN_IF_ERROR(check_flags(flags, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  if (len < ACL_IPC_HANDLE_SIZE) {
    return {ACL_ERROR_RT_PARAM_INVALID,
            text("argument 'len' (", len, ") is less than ACL_IPC_HANDLE_SIZE (", ACL_IPC_HANDLE_SIZE, ")")};
  }
  Result<Place> place = locate_device(devPtr, size, "devPtr");
  if (!place.ok()) return place.take_status();
  Result<std::string> made =
      IpcMemory::export_range(devPtr, size, flags == 0 ? IpcMemory::Importers::kNamed : IpcMemory::Importers::kAll);
  if (!made.ok()) return made.take_status();
  std::memset(key, 0, len);
  std::memcpy(key, made.value().data(), made.value().size());
  return {};
}

Status aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
  if (num == 0) return {ACL_ERROR_RT_PARAM_INVALID, "argument 'num' is 0; name at least one process"};
  return IpcMemory::allow(text_of(key), std::span(pid, num));
}

Status aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t flags) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  SOFTNPU_RETURN_IF_ERROR(check_flags(flags, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS));
  const Device& device = device_of(*context.value());
  Result<void*> address = IpcMemory::import_range(text_of(key), device.host_number());
  if (!address.ok()) return address.take_status();
  if (races_are_checked()) {
    if (const auto range = device.heap()->find(address.value())) races().forget(range->base, range->bytes);
  }
  *devPtr = address.value();
  return {};
}

Status aclrtIpcMemClose(const char* key) { return IpcMemory::close(text_of(key)); }

}  // namespace softnpu::api
