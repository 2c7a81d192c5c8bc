// Turns error codes of the device library into C++ exceptions. No other file does so.
//
//   acl::check(ACL_FN(aclrtSynchronizeStream)(stream), "aclrtSynchronizeStream");
//
// The exception is a c10::Error (RuntimeError in Python), c10::NotImplementedError if an operator lacks a data type, or
// c10::OutOfMemoryError if the device has no memory left. Its text contains the function, the code and its name, and the message
// of the device library, which names the operator if a task failed.
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

// Warns instead of throwing, for destructors and other code that must not throw.
C10_EXPORT void warn_if_failed(aclError code, const char* function) noexcept;

// Whether `code`, returned by a call that waits, means that work failed on the device. Other codes mean that the call itself was
// refused, such as a wait for a captured stream.
C10_EXPORT bool is_failed_work(aclError code);

// The text that fail() would throw. Clears the recent message of the device library.
C10_EXPORT std::string describe(aclError code, const char* function);

// The same, or nothing if the failure of this task was described before: a stream that waits for a failed stream fails with the
// same task.
C10_EXPORT std::optional<std::string> describe_once(aclError code, const char* function);

// Whether `code` says that the device has no memory left.
C10_EXPORT bool is_out_of_memory(aclError code);

// Returns a text that describe() appends to `text`, its description of a failure of `function`; empty for nothing.
using Annotator = std::string (*)(aclError code, const char* function, const std::string& text);
// describe() appends the texts in this order.
enum class AnnotatorPlace { kLaunch, kGroup };
C10_EXPORT void set_annotator(AnnotatorPlace place, Annotator annotator);

}  // namespace torch_npu::acl
