// Dumps of operators: configurations, calls in a wrong order, folders that cannot be written, and ending processes.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_adds.h"
#include "aclnnop/aclnn_neg.h"
#include "ops/dump_fixture.h"

#if SOFTNPU_TESTS_DUMPS

namespace softnpu::test {
namespace {

// The folder that a child got from its parent; "" in the parent.
std::string given_folder() {
  const char* folder = std::getenv("DUMP_TEST_FOLDER");
  return folder == nullptr ? "" : folder;
}
std::string in_folder(const TempDir& folder) { return "DUMP_TEST_FOLDER=" + folder.path().string(); }

class DumpConfigTest : public DumpFixture {
 protected:
  aclError set(const std::string& content) const {
    return aclmdlSetDump(write_file(folder.path() / "tried.json", content).c_str());
  }
};

TEST_F(DumpConfigTest, CallsInWrongOrderAreRefused) {
  EXPECT_ACL_ERROR(ACL_ERROR_DUMP_NOT_RUN, aclmdlSetDump("dump.json"));
  EXPECT_RECENT_ERROR("call aclmdlInitDump first");
  EXPECT_ACL_ERROR(ACL_ERROR_DUMP_NOT_RUN, aclmdlFinalizeDump());
  EXPECT_RECENT_ERROR("call aclmdlInitDump first");
  ASSERT_ACL(aclmdlInitDump());
  EXPECT_ACL_ERROR(ACL_ERROR_DUMP_ALREADY_RUN, aclmdlInitDump());
  EXPECT_RECENT_ERROR("aclmdlFinalizeDump");
  ASSERT_ACL(aclmdlFinalizeDump());
  ASSERT_ACL(aclmdlInitDump());
}

TEST_F(DumpConfigTest, MistakesInTheFileAreNamed) {
  ASSERT_ACL(aclmdlInitDump());
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_FILE, aclmdlSetDump((folder.path() / "missing.json").c_str()));
  EXPECT_RECENT_ERROR("missing.json' cannot be read");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_FILE, aclmdlSetDump(folder.path().c_str()));
  EXPECT_ACL_ERROR(ACL_ERROR_PARSE_FILE, set(""));
  EXPECT_ACL_ERROR(ACL_ERROR_PARSE_FILE, set("{\"dump\": {\"dump_path\": ./output}}"));
  EXPECT_RECENT_ERROR("1:24: expected a value");
  const auto refused = [&](const std::string& content, const std::string& words) {
    EXPECT_ACL_ERROR(ACL_ERROR_INVALID_DUMP_CONFIG, set(content)) << content;
    EXPECT_RECENT_ERROR(words);
  };
  refused("[]", "has no object \"dump\"");
  refused("{}", "has no object \"dump\"");
  refused(R"({"dump": 1})", "'dump' must be an object");
  refused(R"({"dump": {}})", "'dump_path' must be a folder");
  refused(R"({"dump": {"dump_path": ""}})", "'dump_path' must be a folder");
  refused(R"({"dump": {"dump_path": 5}})", "'dump_path' must be a folder");
  refused(R"({"dump": {"dump_path": "x", "dump_mode": "some"}})", "'dump_mode' must be \"input\", \"output\" or \"all\"");
  refused(R"({"dump": {"dump_path": "x", "dump_op_switch": true}})", "'dump_op_switch' must be \"on\" or \"off\"");
  refused(R"({"dump": {"dump_path": "x", "dump_data": "stats"}})", "statistics are not offered");
  refused(R"({"dump": {"dump_path": "x", "dump_list": "Add"}})", "'dump_list' must be a list");
  refused(R"({"dump": {"dump_path": "x", "dump_list": [{"model_name": "m"}]}})", "no offline models");
}

// Examples of the vendor's documents, with their mistakes.
constexpr auto kDumpJson = R"({
 "dump":
 {
         "dump_list":[],
         "dump_path":"PATH",
         "dump_mode":"all",
         "dump_op_switch":"on"
 })";
constexpr auto kAclJson = R"({
    "dump":
	    {
            "dump_list":[]
            "dump_path":"PATH"# 映射结果输出路径
            "dump_mode":"all"
            "dump_op_switch":"on"
	    }

})";

TEST_F(DumpConfigTest, ExamplesOfTheDocumentsWorkWithAWarning) {
  const auto said = [&](std::string content) {
    std::filesystem::remove_all(output());
    content.replace(content.find("PATH"), 4, output().string());
    testing::internal::CaptureStderr();
    EXPECT_ACL(aclmdlInitDump());
    EXPECT_ACL(set(content));
    EXPECT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
    const auto dumps = end();
    const std::string words = testing::internal::GetCapturedStderr();
    EXPECT_EQ(dumps.size(), 1U);
    EXPECT_EQ(dumps.empty() ? 0 : dumps[0].inputs.size(), 2U);
    return words;
  };
  const std::string first = said(kDumpJson);
  EXPECT_NE(first.find("is not valid JSON; it was read with these mistakes corrected: 8:3: '}' is missing"), std::string::npos)
      << first;
  const std::string second = said(kAclJson);
  for (const std::string words : {"',' is missing", "there is a comment"})
    EXPECT_NE(second.find(words), std::string::npos) << second;
}

TEST_F(DumpConfigTest, SwitchIsOffByDefaultWithAWarning) {
  testing::internal::CaptureStderr();
  ASSERT_ACL(aclmdlInitDump());
  ASSERT_ACL(set(R"({"dump": {"dump_path": ")" + output().string() + R"("}})"));
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  EXPECT_TRUE(end().empty());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("\"dump_op_switch\" is \"off\""), std::string::npos);
}

TEST_F(DumpConfigTest, UnknownMembersAreAWarning) {
  testing::internal::CaptureStderr();
  begin(R"("dump_step": "0|3")");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("'dump_step' of the dump has no effect"), std::string::npos);
}

TEST_F(DumpConfigTest, PathMayBeRelativeToTheCurrentFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  ASSERT_ACL(aclmdlInitDump());
  ASSERT_ACL(set(R"({"dump": {"dump_path": "./output", "dump_op_switch": "on"}})"));
  std::filesystem::current_path(before);
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  EXPECT_EQ(end().size(), 1U);
}

size_t count_words(const std::string& text, const std::string& words) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++found;
  return found;
}

class DumpFolderTest : public DumpFixture {
 protected:
  void run_operators() {
    for (int round = 0; round < 3; ++round) {
      ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
      EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44})) << "the program does not go on";
    }
  }
};

TEST_F(DumpFolderTest, PathThatIsAFileIsOneSentence) {
  write_file(output(), "a file");
  testing::internal::CaptureStderr();
  begin();
  run_operators();
  ASSERT_ACL(aclmdlFinalizeDump());
  const std::string words = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_words(words, "the operator dump stopped after 0 files, and the program continues"), 1U) << words;
  EXPECT_NE(words.find(output().string()), std::string::npos) << words;
}

TEST_F(DumpFolderTest, FolderThatVanishesIsOneSentence) {
  testing::internal::CaptureStderr();
  begin();
  run_operators();
  ASSERT_TRUE(eventually([&] { return read_dumps(output()).size() == 3; }));
  std::filesystem::remove_all(output());
  run_operators();
  ASSERT_ACL(aclmdlFinalizeDump());
  const std::string words = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_words(words, "the operator dump stopped after 3 files"), 1U) << words;
  EXPECT_NE(words.find("No such file or directory"), std::string::npos) << words;
}

class ChildDump : public DumpFixture {};

TEST_F(ChildDump, ToAFullDisk) {
  const std::filesystem::path mounted = folder.path() / "output";
  std::filesystem::create_directories(mounted);
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", mounted.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "this user cannot mount a small disk";
  }
  Operand large(Sizes{4000}, Floats(4000, 1)), result(Sizes{4000});
  begin();
  for (int round = 0; round < 5; ++round) ASSERT_ACL(CALL(aclnnNeg, stream, large, result));
  EXPECT_EQ(result.read(stream), Floats(4000, -1));
  const auto dumps = end();
  EXPECT_GE(dumps.size(), 1U);
  EXPECT_LT(dumps.size(), 5U);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(mounted))
    EXPECT_FALSE(entry.path().filename().string().starts_with('.')) << "a part of a file was left";
  umount2(mounted.c_str(), MNT_DETACH);
}

TEST(DumpProcessTest, FullDiskIsOneSentence) {
  const Child child = run_child("ChildDump.ToAFullDisk");
  EXPECT_TRUE(child.passed()) << child.output;
  if (child.output.find("SKIPPED") != std::string::npos) GTEST_SKIP() << "this user cannot mount a small disk";
  const std::string words = "No space left on device; choose another dump_path or free space";
  EXPECT_NE(child.output.find(words), std::string::npos) << child.output;
  EXPECT_EQ(child.output.find(words), child.output.rfind(words)) << child.output;
}

// Launches operators until the process ends. Each test ends it in a different way.
class ChildDumpEnd : public OpsFixture {
 protected:
  void begin_in_given_folder() {
    const std::string path = given_folder();
    ASSERT_NE(path, "");
    ASSERT_ACL(aclmdlInitDump());
    const std::string content =
        R"({"dump": {"dump_path": ")" + path + R"(/output", "dump_mode": "all", "dump_op_switch": "on"}})";
    ASSERT_ACL(aclmdlSetDump(write_file(path + "/dump.json", content).c_str()));
  }
  Stream stream = make_stream();
  Operand value{Sizes{1000}, Floats(1000, 1)};
  ScalarObject one = scalar(1);
};

TEST_F(ChildDumpEnd, ByExit) {
  begin_in_given_folder();
  for (int round = 0; round < 50; ++round) ASSERT_ACL(CALL(aclnnInplaceAdds, stream, value, one, one));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  std::exit(0);
}

TEST_F(ChildDumpEnd, ByKill) {
  begin_in_given_folder();
  for (int round = 0; round < 300; ++round) {
    ASSERT_ACL(CALL(aclnnInplaceAdds, stream, value, one, one));
    if (round != 50) continue;
    ASSERT_TRUE(eventually([] { return !read_dumps(given_folder() + "/output").empty(); }));
  }
  std::raise(SIGKILL);
}

TEST_F(ChildDumpEnd, ByFinalize) {
  begin_in_given_folder();
  for (int round = 0; round < 50; ++round) ASSERT_ACL(CALL(aclnnInplaceAdds, stream, value, one, one));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  ASSERT_ACL(aclFinalize());
  EXPECT_EQ(read_dumps(given_folder() + "/output").size(), 50U);
  std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
}

TEST(DumpProcessTest, FilesAreWholeAfterExit) {
  const TempDir folder;
  EXPECT_CHILD_PASSES("ChildDumpEnd.ByExit", {in_folder(folder)});
  EXPECT_EQ(read_dumps(folder.path() / "output").size(), 50U);
}

TEST(DumpProcessTest, KilledProcessLeavesWholeFilesOnly) {
  const TempDir folder;
  const Child child = run_child("ChildDumpEnd.ByKill", {in_folder(folder)});
  EXPECT_EQ(child.exit_code, -SIGKILL) << child.output;
  const auto dumps = read_dumps(folder.path() / "output");
  EXPECT_GT(dumps.size(), 0U);
  for (const OperatorDump& dump : dumps) EXPECT_EQ(dump.outputs.at(0).as<float>()[0], dump.inputs.at(0).as<float>()[0] + 1);
}

TEST(DumpProcessTest, FilesAreWholeAfterAclFinalize) {
  const TempDir folder;
  EXPECT_CHILD_PASSES("ChildDumpEnd.ByFinalize", {in_folder(folder)});
}

// SOFTNPU_DUMP_MEMORY is 16M.
TEST_F(ChildDump, OfMoreThanTheMemory) {
  constexpr int64_t kCount = 3 << 20;  // 12 MiB: two such tensors exceed the limit
  Operand large(Sizes{kCount}, Floats(kCount, 2)), result(Sizes{kCount});
  begin();
  ASSERT_ACL(CALL(aclnnNeg, stream, large, result));
  ASSERT_ACL(CALL(aclnnInplaceAdds, stream, result, one, one));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 2U);
  EXPECT_EQ(dumps[0].inputs.at(0).as<float>(), Floats(kCount, 2));
  EXPECT_EQ(dumps[0].outputs.at(0).as<float>(), Floats(kCount, -2));
  EXPECT_EQ(dumps[1].inputs.at(0).as<float>(), Floats(kCount, -2));
  EXPECT_EQ(dumps[1].outputs.at(0).as<float>(), Floats(kCount, -1));
}

TEST_F(ChildDump, WaitsForTheDisk) {
  constexpr int64_t kCount = 1 << 20;  // 8 MiB per operator in place: two fit
  Operand value(Sizes{kCount}, Floats(kCount, 0));
  begin();
  for (int round = 0; round < 12; ++round) ASSERT_ACL(CALL(aclnnInplaceAdds, stream, value, one, one));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 12U);
  for (size_t round = 0; round < 12; ++round) EXPECT_EQ(dumps[round].outputs.at(0).as<float>(), Floats(kCount, float(round + 1)));
}

TEST(DumpProcessTest, DataThatDoesNotFitIntoTheMemoryWaitsOrGoesThroughAFile) {
  EXPECT_CHILD_PASSES("ChildDump.OfMoreThanTheMemory:ChildDump.WaitsForTheDisk", {"SOFTNPU_DUMP_MEMORY=16M"});
}

TEST(DumpProcessTest, DumpsWorkInTheOtherLaunchModes) {
  const std::string most = "DumpTest.*-DumpTest.StreamsAndThreads*";
  EXPECT_CHILD_PASSES(most, {"SOFTNPU_LAUNCH=queue"});
  EXPECT_CHILD_PASSES(most, {"SOFTNPU_LAUNCH=shuffle"});
  const std::string held_streams =
      ":DumpTest.Queued*:DumpTest.OperatorsThatAreLaunched*";  // tests in which a launch would wait for the gate
  EXPECT_CHILD_PASSES(most + held_streams, {"SOFTNPU_LAUNCH=sync"});
}

class ChildDumpOfInit : public ::testing::Test {};

TEST_F(ChildDumpOfInit, Works) {
  const TempDir folder;
  std::string content = kAclJson;
  content.replace(content.find("PATH"), 4, (folder.path() / "output").string());
  ASSERT_ACL(aclInit(write_file(folder.path() / "acl.json", content).c_str()));
  ASSERT_ACL(aclrtSetDevice(0));
  EXPECT_ACL_ERROR(ACL_ERROR_DUMP_ALREADY_RUN, aclmdlInitDump());
  EXPECT_RECENT_ERROR("the configuration file of aclInit has already started a dump");
  {
    Stream stream = make_stream();
    Operand a({2}, {1, 2}), out({2});
    ASSERT_ACL(CALL(aclnnNeg, stream, a, out));
    EXPECT_EQ(out.read(stream), (Floats{-1, -2}));
  }
  ASSERT_ACL(aclFinalize());
  EXPECT_EQ(read_dumps(folder.path() / "output").size(), 1U);
  ASSERT_ACL(aclInit(nullptr));
  EXPECT_ACL(aclmdlInitDump()) << "the dump of aclInit did not end";
  EXPECT_ACL_ERROR(ACL_ERROR_REPEAT_INITIALIZE, aclInit(nullptr));
}

TEST_F(ChildDumpOfInit, HasMistakes) {
  const TempDir folder;
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_DUMP_CONFIG,
                   aclInit(write_file(folder.path() / "acl.json", R"({"dump": {"dump_path": 7}})").c_str()));
  EXPECT_RECENT_ERROR("'dump_path' must be a folder");
  ASSERT_ACL(aclInit(write_file(folder.path() / "acl.json", R"({"dump": {"dump_scene": "lite_exception"}})").c_str()));
  EXPECT_ACL(aclmdlInitDump()) << "a dump of exceptions counts as a dump of operators";
}

TEST(DumpProcessTest, FileOfAclInitMayHaveADump) {
  EXPECT_CHILD_PASSES("ChildDumpOfInit.Works");
  EXPECT_CHILD_PASSES("ChildDumpOfInit.HasMistakes");
}

}  // namespace
}  // namespace softnpu::test

#endif
