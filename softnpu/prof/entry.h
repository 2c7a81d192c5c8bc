// Functions that the entry points of libmsprofiler call: checks of arguments, and the conversion of failures.
#pragma once

#include <exception>
#include <new>

#include "runtime/base/status.h"

namespace softnpu::prof::entry {

Status null_argument(const char* name);

// Stores a failure for aclGetRecentErrMsg, writes it to the log and returns its code.
aclError fail(const char* function, const Status& status);

// Fails if the loaded libascendcl was not built together with this library.
Status ready();

// Runs `body` and converts its failures and exceptions into a code. No exception leaves this function.
template <typename Body>
aclError guarded(const char* function, Body body) {
  try {
    Status status = ready();
    if (status.ok()) status = body();
    return status.ok() ? ACL_SUCCESS : fail(function, status);
  } catch (const std::bad_alloc&) {
    return fail(function, Status(ACL_ERROR_BAD_ALLOC, "the host has no memory left for the profiler's own data"));
  } catch (const std::exception& error) {
    return fail(function, Status(ACL_ERROR_INTERNAL_ERROR, error.what()));
  }
}

// The same for functions that return a value instead of a code. `body` returns a Result. A failure gives `otherwise`.
template <typename T, typename Body>
T value_or(T otherwise, const char* function, Body body) {
  T value = otherwise;
  guarded(function, [&]() -> Status {
    Result<T> result = body();
    if (!result.ok()) return result.take_status();
    value = result.value();
    return {};
  });
  return value;
}

}  // namespace softnpu::prof::entry
