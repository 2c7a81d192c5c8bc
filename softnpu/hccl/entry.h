// What the generated functions of libhccl (hccl_entries.cpp) are made of: checks in front of the behaviour, one conversion of
// failures behind it.
#pragma once

#include <exception>
#include <memory>
#include <new>

#include "hccl/errors.h"

namespace softnpu::hccl {

class Communicator;

namespace entry {

Status null_argument(const char* name);

// The communicator behind a handle; HCCL_E_PARA for one that was destroyed, and for anything else.
Status resolve(HcclComm handle, std::shared_ptr<Communicator>* communicator);

// Keeps a failure for aclGetRecentErrMsg, writes it to the log and returns its code.
HcclResult fail(const char* function, const Status& status);

// "Not supported": the function exists in HCCL but not in this library.
HcclResult refuse(const char* function);

// Runs `body`; no exception passes the C boundary.
template <typename Body>
HcclResult guarded(const char* function, Body body) {
  try {
    const Status status = body();
    return status.ok() ? HCCL_SUCCESS : fail(function, status);
  } catch (const std::bad_alloc&) {
    return fail(function, Status(HCCL_E_OOM, "the host has no memory left for the collective library's own data"));
  } catch (const std::exception& error) {
    return fail(function, Status(HCCL_E_INTERNAL, error.what()));
  }
}

}  // namespace entry
}  // namespace softnpu::hccl
