// One test per sentence of message.h, and of text() in status.h.
#include <gtest/gtest.h>

#include "runtime/base/message.h"
#include "runtime/base/status.h"

namespace softnpu {
namespace {

bool ends_with(const std::string& text, std::string_view end) { return std::string_view(text).ends_with(end); }

TEST(Text, OneByteIntegersArePrintedAsNumbers) {
  EXPECT_EQ(text(int8_t(0), " ", int8_t(-128), " ", uint8_t(0), " ", uint8_t(255), "."), "0 -128 0 255.");
}

TEST(Text, BoolsAndCharactersArePrinted) { EXPECT_EQ(text(true, " ", false, " ", 'c', "."), "true false c."); }

TEST(Text, TextAfterANullPointerIsKept) {
  const char* const none = nullptr;
  char* const none_either = nullptr;
  EXPECT_EQ(text("a ", none, " b ", none_either, " c"), "a null b null c");
}

TEST(Text, BytesOfAStringAreKept) {
  EXPECT_EQ(text(std::string("a\0b\xFF", 4), "c"), std::string("a\0b\xFF"
                                                               "c",
                                                               5));
}

TEST(Message, ShortSentenceIsKept) {
  EXPECT_EQ(shortened("", 10), "");
  EXPECT_EQ(shortened("0123456789", 10), "0123456789");
}

TEST(Message, LongSentenceKeepsItsBeginAndItsEnd) {
  const std::string sentence = "aclnnMm(" + std::string(1000, 'x') + "): the reason";
  for (size_t bytes = 60; bytes < 300; ++bytes) {
    const std::string shorter = shortened(sentence, bytes);
    EXPECT_EQ(shorter.size(), bytes);
    EXPECT_TRUE(shorter.starts_with("aclnnMm(")) << shorter;
    EXPECT_TRUE(ends_with(shorter, "x): the reason")) << shorter;
  }
}

TEST(Message, CharactersAreNotCut) {
  std::string sentence;
  while (sentence.size() < 2000) sentence += "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";  // 1, 2, 3 and 4 bytes
  for (size_t bytes = 40; bytes < 80; ++bytes) {
    const std::string shorter = shortened(sentence, bytes);
    EXPECT_LE(shorter.size(), bytes);
    const size_t gap = shorter.find(" ... ");
    ASSERT_NE(gap, std::string::npos);
    EXPECT_TRUE(sentence.starts_with(shorter.substr(0, gap)));
    EXPECT_FALSE(internal::continues_character(sentence[gap])) << bytes;
    EXPECT_FALSE(internal::continues_character(shorter[gap + 5])) << bytes;
    EXPECT_TRUE(ends_with(sentence, shorter.substr(gap + 5)));
  }
}

TEST(Message, EverySizeWorks) {
  for (size_t bytes = 0; bytes < 12; ++bytes) EXPECT_LE(shortened("0123456789abcdef", bytes).size(), bytes);
}

TEST(Message, IsWrittenWithATerminatingZero) {
  char message[SOFTNPU_TASK_MESSAGE];
  std::memset(message, '?', sizeof message);
  write_message(message, std::string(3000, 'x') + " the reason");
  EXPECT_EQ(std::strlen(message), size_t(SOFTNPU_TASK_MESSAGE - 1));
  EXPECT_TRUE(ends_with(message, "x the reason")) << message;
}

}  // namespace
}  // namespace softnpu
