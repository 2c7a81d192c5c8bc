// Passes calls of aclprof functions on to libmsprofiler, which is loaded at the first call (prof_forwards.cpp).
#pragma once

#include <type_traits>

#include "acl/acl_base.h"

namespace softnpu {

// Looks up a function of libmsprofiler.so: first in the file beside this library, then in the file that the dynamic linker finds.
// Returns null and stores a recent error if there is no such function.
void* prof_symbol(const char* name);

// Calls the function. Returns ACL_ERROR_PROFILING_FAILURE, null or 0 if libmsprofiler cannot be loaded.
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
