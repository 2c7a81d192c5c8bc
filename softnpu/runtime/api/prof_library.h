// Passes calls of aclprof functions on to libmsprofiler, which is loaded at the first call (prof_forwards.cpp).
#pragma once

#include <type_traits>

#include "acl/acl_base.h"

namespace softnpu {

// A function of libmsprofiler.so: of the file beside this library, else of the one that the dynamic linker finds. Null, and a
// recent error, if there is none.
void* prof_symbol(const char* name);

// Without libmsprofiler: ACL_ERROR_PROFILING_FAILURE, null or 0.
template <typename Result, typename... Parameters>
Result forward(Result (*)(Parameters...), const char* name, std::type_identity_t<Parameters>... arguments) {
  const auto function = reinterpret_cast<Result (*)(Parameters...)>(prof_symbol(name));
  if (function != nullptr) return function(arguments...);
  if constexpr (std::is_same_v<Result, aclError>) {
    return ACL_ERROR_PROFILING_FAILURE;
  } else {
    return Result();
  }
}

}  // namespace softnpu
