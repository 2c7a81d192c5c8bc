#include <gtest/gtest.h>

#include "base/printable.h"

namespace torch_npu {
namespace {

TEST(Printable, TextStays) {
  const std::string text = "line 1\n\tline 2: \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, ZerosAndControlCharactersAreWritten) {
  EXPECT_EQ(printable(std::string_view("a\0b\r\x1B\x7F", 6)), "a\\x00b\\x0d\\x1b\\x7f");
}

TEST(Printable, BytesThatAreNoUtf8AreWritten) {
  EXPECT_EQ(printable("\xFF"), "\\xff");      // never a character
  EXPECT_EQ(printable("\xA9 a"), "\\xa9 a");  // continuation byte without a first byte
  EXPECT_EQ(printable("\xC3"), "\\xc3");      // cut short
  EXPECT_EQ(printable("\xE2\x82"
                      "a"),
            "\\xe2\\x82"
            "a");                                                    // cut short
  EXPECT_EQ(printable("\xC0\x80"), "\\xc0\\x80");                    // a zero in two bytes
  EXPECT_EQ(printable("\xE0\x80\x80"), "\\xe0\\x80\\x80");           // a zero in three bytes
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
}

}  // namespace
}  // namespace torch_npu
