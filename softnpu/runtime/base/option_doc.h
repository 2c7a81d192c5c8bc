// A row of docs/environment.md. Each library has a table of these rows beside its options; a test compares it with the document.
#pragma once

#include <string_view>

namespace softnpu {

struct OptionDoc {
  std::string_view name;
  std::string_view values;
  std::string_view standard;  // the default, in words
  std::string_view effect;
};

}  // namespace softnpu
