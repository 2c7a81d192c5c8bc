// A reader of JSON (RFC 8259), for configuration files.
//
//   Result<Json> config = Json::parse(content);
//   if (!config.ok()) return config.take_status();           // "3:14: expected ':' after the name"
//   if (const Json* dump = config.value().find("dump")) ...
//
// Stricter than the standard: a name may occur once in an object, a number must fit a double, at most 64 levels are nested. Bytes
// of strings are not checked for UTF-8; \u escapes become UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace softnpu {

// A value. Each accessor returns null if the value is of another kind.
class Json {
 public:
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject };
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  // ACL_ERROR_PARSE_FILE with "line:column: reason" if `document` is not one JSON value.
  static Result<Json> parse(std::string_view document);
  // Like parse(), but accepts comments (from # or // to the end of the line), missing and extra commas, and missing brackets at
  // the end. Each accepted mistake is added to `mistakes` as "line:column: reason".
  static Result<Json> parse_leniently(std::string_view document, std::vector<std::string>& mistakes);

  Kind kind() const { return kind_; }
  const bool* boolean() const { return kind_ == Kind::kBoolean ? &boolean_ : nullptr; }
  const double* number() const { return kind_ == Kind::kNumber ? &number_ : nullptr; }
  const std::string* string() const { return kind_ == Kind::kString ? &string_ : nullptr; }
  const Array* array() const { return kind_ == Kind::kArray ? &array_ : nullptr; }
  const Object* object() const { return kind_ == Kind::kObject ? &object_ : nullptr; }

  // The number, if it is whole and its magnitude is at most 2^53, so that it is exact.
  std::optional<int64_t> integer() const;

  // The member `name` of an object; null if there is none or this is not an object.
  const Json* find(std::string_view name) const;

 private:
  class Reader;

  Kind kind_ = Kind::kNull;
  bool boolean_ = false;
  double number_ = 0;
  std::string string_;
  Array array_;
  Object object_;
};

}  // namespace softnpu
