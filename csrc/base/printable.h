// Text of others, made fit for messages: Python takes UTF-8 only, and C++ ends a message at a zero.
#pragma once

#include <c10/macros/Export.h>

#include <string>
#include <string_view>

namespace torch_npu::acl {

// `text` with each byte that is no part of a character of UTF-8, and each control character but line breaks and tabs, as \xNN.
C10_EXPORT std::string printable(std::string_view text);

}  // namespace torch_npu::acl
