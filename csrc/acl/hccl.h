// Functions of libhccl, the collective library, looked up by name at their first call. No collective library is linked.
//
//   HCCL_CALL(HcclBarrier, comm, stream);                            // throws on failure
//   HcclResult code = HCCL_FN(HcclGetCommAsyncError)(comm, &error);  // returns the code
//
// A missing library or function is a c10::Error of the first call. A failure is a c10::DistBackendError (DistBackendError in
// Python) with the function, the code and its name, and the message of the library. Thread-safe.
#pragma once

#include <string>

#include "acl/symbol.h"
#include "hccl/hccl.h"

namespace torch_npu::acl {

// Throws if libhccl has no such function.
C10_EXPORT void* require_collective_symbol(const char* name);

[[noreturn]] C10_EXPORT void fail_collective(HcclResult code, const char* function);

inline void check_collective(HcclResult code, const char* function) {
  if (code != HCCL_SUCCESS) [[unlikely]]
    fail_collective(code, function);
}

// Such as "HCCL_E_TIMEOUT (9): a rank did not arrive in time".
C10_EXPORT std::string describe_collective(HcclResult code);

}  // namespace torch_npu::acl

#define HCCL_FN(name) (::torch_npu::acl::Symbol<decltype(&::name), #name, ::torch_npu::acl::require_collective_symbol>::get())
#define HCCL_CALL(name, ...) ::torch_npu::acl::check_collective(HCCL_FN(name)(__VA_ARGS__), #name)
