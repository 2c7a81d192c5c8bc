// How a call inside the device says what went wrong: an ACL code and a sentence for the user.
//
//   Status status = heap.free(pointer);
//   if (!status.ok()) return status;
//
// Failure is a value everywhere inside softnpu; the generated C entry points turn it into an aclError and the text of
// aclGetRecentErrMsg, once. A message says what is wrong and what to do; it does not repeat the name of the function or of the
// code, which the entry point adds.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "acl/acl_base.h"

namespace softnpu {

namespace internal {

template <typename Part>
void put(std::ostream& out, const Part& part) {
  if constexpr (std::is_same_v<Part, bool>) {
    out << (part ? "true" : "false");
  } else if constexpr (std::is_same_v<Part, signed char> || std::is_same_v<Part, unsigned char>) {
    out << int(part);  // int8_t and uint8_t are numbers
  } else if constexpr (std::is_same_v<Part, const char*> || std::is_same_v<Part, char*>) {
    out << (part == nullptr ? "null" : part);  // a stream that is given a null pointer drops all that follows
  } else {
    out << part;
  }
}

}  // namespace internal

// Writes its arguments one after another: text("size ", 12, " is too large").
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (internal::put(out, parts), ...);
  return std::move(out).str();
}

// Success costs two words and no allocation.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(aclError code, std::string message) : code_(code), message_(std::make_unique<std::string>(std::move(message))) {}

  bool ok() const { return code_ == ACL_SUCCESS; }
  aclError code() const { return code_; }
  const std::string& message() const {
    static const std::string none;
    return message_ ? *message_ : none;
  }
  Status copy() const { return ok() ? Status() : Status(code_, message()); }

 private:
  aclError code_ = ACL_SUCCESS;
  std::unique_ptr<std::string> message_;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return status_.ok(); }
  T& value() { return value_; }
  const T& value() const { return value_; }
  Status take_status() { return std::move(status_); }

 private:
  Status status_;
  T value_{};
};

}  // namespace softnpu

// Leaves the function with the status of `expression` unless it is ok.
#define SOFTNPU_RETURN_IF_ERROR(expression)                                      \
  do {                                                                           \
    if (::softnpu::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
