// Parsers for the values of environment variables and of JSON texts.
//
//   uint32_t seconds = 120;
//   if (!parse_number<uint32_t>(value, 1, 7200, seconds)) warn(...);   // seconds is still 120
//
// A parser returns false for a bad value and then leaves its output unchanged. Nothing here allocates except split().
#pragma once

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

namespace softnpu {

// `text` without spaces and tabs at its ends.
inline std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The trimmed items of a list separated by commas. An empty text is a list of one empty item.
inline std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> items;
  for (size_t comma; (comma = list.find(',')) != std::string_view::npos; list.remove_prefix(comma + 1)) {
    items.push_back(trim(list.substr(0, comma)));
  }
  items.push_back(trim(list));
  return items;
}

// A decimal number from `least` to `most`, without spaces or a plus sign.
template <typename Number>
bool parse_number(std::string_view value, Number least, Number most, Number& out) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most) return false;
  out = number;
  return true;
}

// "0" is false, "1" is true.
inline bool parse_switch(std::string_view value, bool& out) {
  if (value != "0" && value != "1") return false;
  out = value == "1";
  return true;
}

// `names` are in the order of the enumerators, which count from 0.
template <typename Enum, size_t kCount>
bool parse_name(std::string_view value, const std::string_view (&names)[kCount], Enum& out) {
  const auto* name = std::find(std::begin(names), std::end(names), value);
  if (name == std::end(names)) return false;
  out = static_cast<Enum>(name - std::begin(names));
  return true;
}

}  // namespace softnpu
