// Codes of the device library become one kind of C++ exception, here and nowhere else.
//
//   acl::check(ACL_FN(aclrtSynchronizeStream)(stream), "aclrtSynchronizeStream");
//
// The exception is a c10::Error (RuntimeError in Python), c10::NotImplementedError where an operator lacks a data type, or
// c10::OutOfMemoryError where the device has no memory left. Its text holds the function, the code and its name, and the device's
// own message, which names the operator where a task failed.
#pragma once

#include <c10/macros/Export.h>

#include <optional>
#include <string>

#include "acl/acl_base.h"

namespace torch_npu::acl {

[[noreturn]] C10_EXPORT void fail(aclError code, const char* function);

inline void check(aclError code, const char* function) {
  if (code != ACL_SUCCESS) [[unlikely]]
    fail(code, function);
}

// For destructors and other places that must not throw: one warning instead of an exception.
C10_EXPORT void warn_if_failed(aclError code, const char* function) noexcept;

// Whether a call that waits says by `code` that work failed on the device. Other codes are about the call: what it asks for
// is not possible, such as a wait for a stream that is captured.
C10_EXPORT bool is_failed_work(aclError code);

// The text that fail() would throw. Takes the device's recent message away.
C10_EXPORT std::string describe(aclError code, const char* function);

// The same, or nothing if the text of that failed task was made before: a stream that waits for a failed one fails with it.
C10_EXPORT std::optional<std::string> describe_once(aclError code, const char* function);

// Whether `code` says that the device has no memory left.
C10_EXPORT bool is_out_of_memory(aclError code);

// What describe() appends: more about a failure of `function`, given the text so far; empty if nothing is known.
using Annotator = std::string (*)(aclError code, const char* function, const std::string& text);
C10_EXPORT void set_annotator(Annotator annotator);

}  // namespace torch_npu::acl
