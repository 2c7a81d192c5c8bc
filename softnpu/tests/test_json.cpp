// The configuration file of aclInit. In child processes, because a process is initialised once.
#include <thread>

#include "testing/buffers.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

class ChildConfig : public ::testing::Test {
 protected:
  aclError init_with(const std::string& content) { return aclInit(write_file(folder_.path() / "config.json", content).c_str()); }

  TempDir folder_;
};

TEST_F(ChildConfig, GoodFiles) {
  const char* const contents[] = {
      "{}",
      "",
      " \n\t ",
      R"({"dump": {"dump_scene": "lite_exception"}})",
      R"({"dump": {"dump_scene": "lite_exception"}, "defaultDevice": {"default_device": "0"}})",
      R"({"numbers": [0, -1, 2.5, 1e3, -0.1E-2], "words": [true, false, null], "text": "\u00e9\n\"\\ é"})",
      R"({"err_msg_mode": "0"})",
      R"({"err_msg_mode": "1"})",
  };
  for (const char* const content : contents) {
    EXPECT_ACL(init_with(content)) << content;
    EXPECT_ACL(aclFinalize());
  }
  EXPECT_ACL(aclInit(""));
  EXPECT_ACL(aclFinalize());
}

TEST_F(ChildConfig, MissingFiles) {
  const std::string missing = (folder_.path() / "missing.json").string();
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_FILE, aclInit(missing.c_str()));
  EXPECT_RECENT_ERROR(missing);
  EXPECT_NE(aclInit(folder_.path().c_str()), ACL_SUCCESS) << "a folder was accepted";
  recent_error();
  int32_t device = -1;
  EXPECT_ACL_ERROR(ACL_ERROR_UNINITIALIZE, aclrtGetDevice(&device));
  EXPECT_ACL(aclInit(nullptr)) << "a failed aclInit had an effect";
}

TEST_F(ChildConfig, InvalidFiles) {
  struct Bad {
    std::string content;
    const char* place;  // line:column
  };
  std::string deep;
  for (int level = 0; level < 70; ++level) deep += "[";
  const Bad bad_files[] = {
      {"{", "1:2"},
      {"{\"a\" 1}", "1:6"},
      {"{\n  \"a\": 1,\n}", "3:1"},
      {"{\"a\": 1} x", "1:10"},
      {"{\n\n \"a\": tru }", "3:7"},
      {"{\"a\": 01}", "1:8"},
      {"{\"a\": .5}", "1:7"},
      {"{\"a\": 1.}", "1:9"},
      {"{\"a\": 'b'}", "1:7"},
      {"{a: 1}", "1:2"},
      {"{\"a\": \"\\q\"}", "1:8"},
      {"{\"a\": \"\\ud800\"}", "1:8"},
      {"{\"a\": \"b\n\"}", "1:9"},
      {"{\"a\": 1e999}", "1:7"},
      {"{\"a\": 1, \"a\": 2}", "1:10"},
      {deep, "1:65"},
      {std::string("\x00\x01\xFF", 3), "1:1"},
  };
  for (const auto& [content, place] : bad_files) {
    EXPECT_ACL_ERROR(ACL_ERROR_PARSE_FILE, init_with(content)) << content;
    const std::string message = recent_error();
    EXPECT_NE(message.find(" " + std::string(place) + ":"), std::string::npos) << "'" << content << "' gives: " << message;
    EXPECT_NE(message.find("config.json"), std::string::npos) << message;
  }
  for (const char* const content : {"[]", "1", "\"text\"", "null"}) {
    EXPECT_ACL_ERROR(ACL_ERROR_PARSE_FILE, init_with(content)) << content;
    EXPECT_RECENT_ERROR("object");
  }
}

TEST_F(ChildConfig, UnknownModes) {
  for (const char* const mode : {"2", "\"2\"", "true", "\"\"", "{}"}) {
    EXPECT_ACL_ERROR(ACL_ERROR_FILE_ATTR_INVALID, init_with(std::string("{\"err_msg_mode\": ") + mode + "}")) << mode;
    EXPECT_RECENT_ERROR("err_msg_mode");
  }
}

// The error text that this thread gets after a failure of another thread.
std::string error_of_another_thread() {
  std::thread([] { EXPECT_NE(aclrtFree(reinterpret_cast<void*>(64)), ACL_SUCCESS); }).join();
  return recent_error();
}

TEST_F(ChildConfig, ErrorModes) {
  ASSERT_ACL(init_with(R"({"err_msg_mode": "0"})"));
  EXPECT_EQ(error_of_another_thread(), "");
  ASSERT_ACL(aclFinalize());
  ASSERT_ACL(init_with(R"({"err_msg_mode": "1"})"));
  EXPECT_NE(error_of_another_thread(), "") << "the error text is not shared by the threads";
  EXPECT_EQ(recent_error(), "") << "the error text was returned twice";
  ASSERT_ACL(aclFinalize());
  ASSERT_ACL(aclInit(nullptr));
  EXPECT_EQ(error_of_another_thread(), "") << "aclFinalize did not end the mode";
}

class ConfigTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ConfigTest, IsCheckedByAclInit) {
  REQUIRE_SOFTNPU();
  EXPECT_CHILD_PASSES(std::string("ChildConfig.") + GetParam());
}

INSTANTIATE_TEST_SUITE_P(File, ConfigTest,
                         ::testing::Values("GoodFiles", "MissingFiles", "InvalidFiles", "UnknownModes", "ErrorModes"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace softnpu::test
