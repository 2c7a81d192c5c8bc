// Makes text from the device library or the user fit for an exception: Python requires UTF-8, and a zero byte ends a C++ message.
#pragma once

#include <c10/macros/Export.h>

#include <string>
#include <string_view>

namespace torch_npu {

// Replaces each byte that is not part of a UTF-8 character, and each control character except line breaks and tabs, by \xNN.
C10_EXPORT std::string printable(std::string_view text);

}  // namespace torch_npu
