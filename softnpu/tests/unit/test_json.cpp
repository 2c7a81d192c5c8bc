// One test per sentence of json.h.
#include <gtest/gtest.h>

#include "runtime/base/json.h"

namespace softnpu {
namespace {

Json parsed(std::string_view document) {
  Result<Json> result = Json::parse(document);
  EXPECT_TRUE(result.ok()) << result.take_status().message();
  return std::move(result.value());
}

std::string mistake(std::string_view document) {
  Result<Json> result = Json::parse(document);
  EXPECT_FALSE(result.ok()) << document;
  const Status status = result.take_status();
  EXPECT_EQ(status.code(), ACL_ERROR_PARSE_FILE);
  return status.message();
}

TEST(Json, EveryKindIsRead) {
  const Json json = parsed(R"( {"a": [1, -2.5e3, true, false, null, "x"], "b": {}, "": []} )");
  const Json::Array& list = *json.find("a")->array();
  EXPECT_EQ(*list[0].number(), 1);
  EXPECT_EQ(*list[1].number(), -2500);
  EXPECT_TRUE(*list[2].boolean());
  EXPECT_FALSE(*list[3].boolean());
  EXPECT_EQ(list[4].kind(), Json::Kind::kNull);
  EXPECT_EQ(*list[5].string(), "x");
  EXPECT_TRUE(json.find("b")->object()->empty());
  EXPECT_TRUE(json.find("")->array()->empty());
}

TEST(Json, AccessorsReturnNullForAnotherKind) {
  const Json json = parsed("true");
  EXPECT_EQ(json.number(), nullptr);
  EXPECT_EQ(json.string(), nullptr);
  EXPECT_EQ(json.array(), nullptr);
  EXPECT_EQ(json.object(), nullptr);
  EXPECT_EQ(json.find("a"), nullptr);
  EXPECT_EQ(parsed("{}").find("a"), nullptr);
  EXPECT_EQ(json.integer(), std::nullopt);
}

TEST(Json, IntegersAreExact) {
  EXPECT_EQ(parsed("-9007199254740992").integer(), -9007199254740992);
  EXPECT_EQ(parsed("1e3").integer(), 1000);
  EXPECT_EQ(parsed("1.5").integer(), std::nullopt);
  EXPECT_EQ(parsed("1e300").integer(), std::nullopt);
}

TEST(Json, EscapesBecomeUtf8) {
  EXPECT_EQ(*parsed(R"("\"\\\/\b\f\n\r\t")").string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(*parsed(R"("\u0041\u00e9\u20AC\ud83d\ude00")").string(), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(parsed(R"("\u0000")").string()->size(), 1u);
  EXPECT_EQ(*parsed("\"\u00e9\"").string(), "\u00e9");
}

TEST(Json, ErrorsNameLineAndColumn) {
  EXPECT_EQ(mistake(""), "1:1: expected a value before the end");
  EXPECT_EQ(mistake("{\n  \"a\" 1}"), "2:7: expected ':' after the name");
  EXPECT_EQ(mistake("[1 2]"), "1:4: expected ',' or ']'");
  EXPECT_EQ(mistake("{\"a\":1"), "1:7: expected ',' or '}'");
  EXPECT_EQ(mistake("{\"a\":1,}"), "1:8: expected a name in double quotes");
  EXPECT_EQ(mistake("[1,]"), "1:4: expected a value");
  EXPECT_EQ(mistake("1 x"), "1:3: expected the end of the document");
  EXPECT_EQ(mistake("{\"a\":1,\n\"a\":2}"), "2:1: the name occurs twice in its object");
  EXPECT_EQ(mistake("[\"\u00e9\", x]"), "1:7: expected a value");
}

TEST(Json, OnlyTheStandardIsAccepted) {
  for (const char* document : {"01",
                               "-",
                               "1.",
                               ".5",
                               "1e",
                               "+1",
                               "0x1",
                               "NaN",
                               "tru",
                               "'a'",
                               "\"a",
                               "\"\\x\"",
                               "\"\\u12g4\"",
                               "\"\\ud800\"",
                               "\"\\udc00\"",
                               "\"\\ud800\\u0041\"",
                               "\"\n\"",
                               "1e999",
                               "// c\n1",
                               "{a:1}",
                               "\xEF\xBB\xBF"
                               "1",
                               "\"\\"}) {
    mistake(document);
  }
  mistake(std::string_view("\"\\\0\"", 4));
  mistake(std::string_view("1\0", 2));
}

TEST(Json, LenientReaderAcceptsAndNamesMistakes) {
  const auto read = [](std::string_view document, std::vector<std::string>& mistakes) {
    return Json::parse_leniently(document, mistakes);
  };
  std::vector<std::string> mistakes;
  const Result<Json> sample = read("{\"a\": [1]# why\n\"b\": [\"x\" \"y\",] // end\n \"c\": {\"d\": 2", mistakes);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample.value().find("b")->array()->size(), 2U);
  EXPECT_EQ(sample.value().find("c")->find("d")->integer(), 2);
  EXPECT_EQ(mistakes, (std::vector<std::string>{"1:10: there is a comment", "2:1: ',' is missing", "2:11: ',' is missing",
                                                "2:15: there is a comma before the end", "2:17: there is a comment",
                                                "3:2: ',' is missing", "3:14: '}' is missing", "3:14: '}' is missing"}));
  mistakes.clear();
  EXPECT_TRUE(read("{\"a\": 1}", mistakes).ok());
  EXPECT_TRUE(mistakes.empty());
  for (const char* document : {"", "{\"a\" 1}", "{a: 1}", "{\"a\": }", "[1 2]", "{}}", "{\"a\": \"b", "# only a comment"})
    EXPECT_FALSE(read(document, mistakes).ok()) << document;
}

TEST(Json, NestingIsLimited) {
  const auto nested = [](int levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  parsed(nested(64));
  EXPECT_EQ(mistake(nested(65)), "1:65: more than 64 levels are nested");
  mistake(std::string(1'000'000, '['));
}

}  // namespace
}  // namespace softnpu
