// Functions of the device library by name, typed by the ABI's headers and bound at their first use. Nothing is linked.
//
//   ACL_CALL(aclrtMalloc, &pointer, bytes, ACL_MEM_MALLOC_HUGE_FIRST);   // throws on failure
//   aclError code = ACL_FN(aclrtQueryEventStatus)(event, &status);       // hands the code out
//
// A missing library or function is one c10::Error at the call that needs it. Thread-safe; a bound call costs one load.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "acl/acl.h"
#include "acl/error.h"

namespace torch_npu::acl {

// The address of a function of libascendcl, or else of the operator libraries; throws if no library of the set has it.
C10_EXPORT void* require_symbol(const char* name);

// The same without operator libraries, null if there is none. For functions that older libraries lack.
C10_EXPORT void* find_symbol(const char* name);

// An aclnn or aclTensor function: libopapi and what it depends on, then custom operator libraries; null if absent. Throws only if
// the operator library itself cannot be loaded.
C10_EXPORT void* find_op_symbol(const char* name);

template <size_t kSize>
struct SymbolName {
  consteval SymbolName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize];
};

template <typename Function, SymbolName kName>
struct Symbol {
  static Function get() {
    if (Function function = bound.load(std::memory_order_relaxed)) [[likely]]
      return function;
    const auto function = reinterpret_cast<Function>(require_symbol(kName.text));
    bound.store(function, std::memory_order_relaxed);
    return function;
  }
  static inline std::atomic<Function> bound{nullptr};
};

}  // namespace torch_npu::acl

#define ACL_FN(name) (::torch_npu::acl::Symbol<decltype(&::name), #name>::get())
#define ACL_CALL(name, ...) ::torch_npu::acl::check(ACL_FN(name)(__VA_ARGS__), #name)
