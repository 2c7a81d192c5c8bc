#include "acl/hccl.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <iterator>

#include "acl/library.h"
#include "base/printable.h"

namespace torch_npu::acl {
namespace {

constexpr const char* kNames[] = {"HCCL_SUCCESS",
                                  "HCCL_E_PARA",
                                  "HCCL_E_PTR",
                                  "HCCL_E_MEMORY",
                                  "HCCL_E_INTERNAL",
                                  "HCCL_E_NOT_SUPPORT",
                                  "HCCL_E_NOT_FOUND",
                                  "HCCL_E_UNAVAIL",
                                  "HCCL_E_SYSCALL",
                                  "HCCL_E_TIMEOUT",
                                  "HCCL_E_OPEN_FILE_FAILURE",
                                  "HCCL_E_TCP_CONNECT",
                                  "HCCL_E_ROCE_CONNECT",
                                  "HCCL_E_TCP_TRANSFER",
                                  "HCCL_E_ROCE_TRANSFER",
                                  "HCCL_E_RUNTIME",
                                  "HCCL_E_DRV",
                                  "HCCL_E_PROFILING",
                                  "HCCL_E_CCE",
                                  "HCCL_E_NETWORK",
                                  "HCCL_E_AGAIN",
                                  "HCCL_E_REMOTE",
                                  "HCCL_E_SUSPENDING",
                                  "HCCL_E_OPRETRY_FAIL",
                                  "HCCL_E_OOM"};
static_assert(std::size(kNames) == HCCL_E_RESERVED);

// Without the function in front, which the text of the exception has already.
std::string recent_message(const std::string& function) {
  const char* const recent = ACL_FN(aclGetRecentErrMsg)();
  std::string_view message = recent == nullptr ? std::string_view() : std::string_view(recent);
  const std::string prefix = function + ": ";
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  return printable(message);
}

}  // namespace

void* require_collective_symbol(const char* name) {
  if (void* const symbol = dlsym(collective_library(), name)) return symbol;
  TORCH_CHECK(false, "the collective library beside ", library_info().path, " has no function ", name,
              ": it is older than torch_npu needs, or its installation is incomplete.");
}

std::string describe_collective(HcclResult code) {
  const bool is_known = code >= HCCL_SUCCESS && code < HCCL_E_RESERVED;
  const char* const text = HCCL_FN(HcclGetErrorString)(code);
  return c10::str(is_known ? kNames[code] : "an unknown code", " (", static_cast<int>(code), ")", text == nullptr ? "" : ": ",
                  text == nullptr ? "" : text);
}

void fail_collective(HcclResult code, const char* function) {
  const std::string message = recent_message(function);
  C10_THROW_ERROR(DistBackendError,
                  c10::str(function, " failed with ", describe_collective(code), message.empty() ? "" : "\n", message));
}

}  // namespace torch_npu::acl
