// The result of a call inside the device: success, or an ACL code and a sentence for the user.
//
//   Status status = heap.free(pointer);
//   if (!status.ok()) return status;
//
// Inside softnpu a failure is a value. The generated C entry points convert it to an aclError and to the text of
// aclGetRecentErrMsg. A message has the mistake, the value that was given and what to do. The entry point adds the names of the
// function and of the code.
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
    out << int(part);  // int8_t and uint8_t are printed as numbers
  } else if constexpr (std::is_same_v<Part, const char*> || std::is_same_v<Part, char*>) {
    out << (part == nullptr ? "null" : part);  // a std::ostream drops all output after a null pointer
  } else {
    out << part;
  }
}

}  // namespace internal

// Concatenates its arguments: text("size ", 12, " is too large").
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (internal::put(out, parts), ...);
  return std::move(out).str();
}

// A successful Status is two words and allocates nothing.
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

// A value, or the Status that says why there is none.
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

// Returns the status of `expression` from the function unless it is ok.
#define SOFTNPU_RETURN_IF_ERROR(expression)                                      \
  do {                                                                           \
    if (::softnpu::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
