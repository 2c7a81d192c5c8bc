#include "hccl/errors.h"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace softnpu::hccl {
namespace {

struct Description {
  const char* name;
  const char* text;
};

constexpr Description kDescriptions[] = {
    {"HCCL_SUCCESS", "no error"},
    {"HCCL_E_PARA", "an argument has a wrong value"},
    {"HCCL_E_PTR", "an argument is null"},
    {"HCCL_E_MEMORY", "memory could not be used"},
    {"HCCL_E_INTERNAL", "an internal error occurred"},
    {"HCCL_E_NOT_SUPPORT", "the function or the combination of arguments is not supported"},
    {"HCCL_E_NOT_FOUND", "a named object does not exist"},
    {"HCCL_E_UNAVAIL", "a resource is not available"},
    {"HCCL_E_SYSCALL", "a call of the operating system failed"},
    {"HCCL_E_TIMEOUT", "a rank did not respond in time"},
    {"HCCL_E_OPEN_FILE_FAILURE", "a file could not be opened"},
    {"HCCL_E_TCP_CONNECT", "a TCP connection could not be made"},
    {"HCCL_E_ROCE_CONNECT", "an RDMA connection could not be made"},
    {"HCCL_E_TCP_TRANSFER", "a TCP connection broke"},
    {"HCCL_E_ROCE_TRANSFER", "an RDMA connection broke"},
    {"HCCL_E_RUNTIME", "a call of the device runtime failed"},
    {"HCCL_E_DRV", "a call of the driver failed"},
    {"HCCL_E_PROFILING", "a call of the profiler failed"},
    {"HCCL_E_CCE", "a call of the compute engine failed"},
    {"HCCL_E_NETWORK", "a network call failed"},
    {"HCCL_E_AGAIN", "the call must be repeated"},
    {"HCCL_E_REMOTE", "another rank failed"},
    {"HCCL_E_SUSPENDING", "the communicator is suspended"},
    {"HCCL_E_OPRETRY_FAIL", "repeating a collective failed"},
    {"HCCL_E_OOM", "there is not enough memory"},
    {"HCCL_E_RESERVED", "unknown error code"},
};
static_assert(std::size(kDescriptions) == HCCL_E_RESERVED + 1);

const Description& description_of(HcclResult code) {
  const bool is_known = code >= HCCL_SUCCESS && code < HCCL_E_RESERVED;
  return kDescriptions[is_known ? code : HCCL_E_RESERVED];
}

}  // namespace

const char* result_name(HcclResult code) { return description_of(code).name; }

const char* result_text(HcclResult code) { return description_of(code).text; }

aclError stream_error(HcclResult code) {
  switch (code) {
    case HCCL_E_TIMEOUT:
      return ACL_ERROR_RT_TASK_TIMEOUT;
    case HCCL_E_REMOTE:
      return ACL_ERROR_RT_LOST_HEARTBEAT;
    case HCCL_E_PARA:
      return ACL_ERROR_RT_PARAM_INVALID;
    case HCCL_E_UNAVAIL:
      return ACL_ERROR_RT_STREAM_ABORT;
    default:
      return ACL_ERROR_RT_INTERNAL_ERROR;
  }
}

Status system_failure(const std::string& what, HcclResult code) { return {code, text(what, ": ", std::strerror(errno))}; }

}  // namespace softnpu::hccl
