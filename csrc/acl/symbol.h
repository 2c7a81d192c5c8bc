// Functions of the device library, looked up by name at their first call. The headers of the ABI give their types. No device
// library is linked.
//
//   ACL_CALL(aclrtMalloc, &pointer, bytes, ACL_MEM_MALLOC_HUGE_FIRST);   // throws on failure
//   aclError code = ACL_FN(aclrtQueryEventStatus)(event, &status);       // returns the code
//
// A missing library or function is a c10::Error of the first call. After the first call the look-up costs one load. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "acl/acl.h"
#include "acl/error.h"

namespace torch_npu::acl {

// The address of a function of libascendcl or, if it is not there, of the operator libraries. Throws if none of them has it.
C10_EXPORT void* require_symbol(const char* name);

// The same of libascendcl only; null if it has no such function. For functions that older libraries lack.
C10_EXPORT void* find_symbol(const char* name);

// An aclnn or aclTensor function, from libopapi and its dependencies or else from custom operator libraries; null if there is
// none. Throws only if libopapi cannot be loaded.
C10_EXPORT void* find_op_symbol(const char* name);

template <size_t kSize>
struct SymbolName {
  consteval SymbolName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize];
};

// `kFind` returns the address of the function of that name, or throws.
template <typename Function, SymbolName kName, void* (*kFind)(const char*) = require_symbol>
struct Symbol {
  static Function get() {
    if (Function function = bound.load(std::memory_order_relaxed)) [[likely]]
      return function;
    const auto function = reinterpret_cast<Function>(kFind(kName.text));
    bound.store(function, std::memory_order_relaxed);
    return function;
  }
  static inline std::atomic<Function> bound{nullptr};
};

}  // namespace torch_npu::acl

#define ACL_FN(name) (::torch_npu::acl::Symbol<decltype(&::name), #name>::get())
#define ACL_CALL(name, ...) ::torch_npu::acl::check(ACL_FN(name)(__VA_ARGS__), #name)
