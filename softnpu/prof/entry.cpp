#include "prof/entry.h"

#include "prof/library.h"

namespace softnpu::prof::entry {

Status null_argument(const char* name) { return {ACL_ERROR_INVALID_PARAM, text("argument '", name, "' is null")}; }

aclError fail(const char* function, const Status& status) {
  if (driver() != nullptr) driver()->fail(function, status.code(), status.message().c_str());
  return status.code();
}

Status ready() {
  if (driver() != nullptr && profiler() != nullptr) [[likely]]
    return {};
  return {ACL_ERROR_PROFILING_FAILURE,
          "the loaded libascendcl.so was not built together with this libmsprofiler.so; load both from one folder"};
}

}  // namespace softnpu::prof::entry
