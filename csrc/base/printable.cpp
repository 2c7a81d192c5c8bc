#include "base/printable.h"

#include <cstdint>

namespace torch_npu {
namespace {

bool is_shown(unsigned char byte) { return (byte >= 0x20 && byte != 0x7F) || byte == '\n' || byte == '\t'; }

// The number of bytes of the UTF-8 character at the start of `text`; 0 if there is none.
size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return is_shown(first) ? 1 : 0;
  const size_t length = first >= 0xF5 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t code = first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3Fu);
  }
  const bool is_overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return is_overlong || is_surrogate || code > 0x10FFFF ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    size_t length = character_length(text);
    if (length != 0) {
      result.append(text.substr(0, length));
    } else {
      const auto byte = static_cast<unsigned char>(text[0]);
      result.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
      length = 1;
    }
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace torch_npu
