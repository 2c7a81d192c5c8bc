// Functions that the generated entry points of libhccl (hccl_entries.cpp) call: checks of arguments, and the conversion of
// failures.
#pragma once

#include <exception>
#include <memory>
#include <new>

#include "hccl/errors.h"

namespace softnpu::hccl {

class Communicator;

namespace entry {

Status null_argument(const char* name);

// Finds the communicator of a handle; HCCL_E_PARA if it was destroyed or never existed.
Status resolve(HcclComm handle, std::shared_ptr<Communicator>* communicator);

// Stores a failure for aclGetRecentErrMsg, writes it to the log and returns its code.
HcclResult fail(const char* function, const Status& status);

// HCCL_E_NOT_SUPPORT for a function that HCCL has and this library does not offer.
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
