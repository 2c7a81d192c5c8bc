// Parsing of settings: lists with a separator, and numbers.
//
//   for (const std::string_view item : split("+memory, -acl", ',')) ...
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

namespace torch_npu {

inline std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The parts between separators, without spaces and tabs around them. Parts may be empty. An empty text has no parts.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.push_back(trimmed(text.substr(0, end)));
  }
  parts.push_back(trimmed(text));
  return parts;
}

// Returns false, and leaves `out` unchanged, unless `text` is a whole number from `least` to `most`.
inline bool parse_number(std::string_view text, int64_t least, int64_t most, int64_t& out) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) return false;
  out = number;
  return true;
}

}  // namespace torch_npu
