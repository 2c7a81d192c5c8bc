// Tests of the fuzzer. aclnn_fuzz_fake has a table of functions that fail on purpose.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "ops/fuzz/generate.h"
#include "ops/fuzz/repair.h"

namespace softnpu::fuzz {
namespace {

struct Ended {
  int status = -1;
  std::string output;

  bool has(const std::string& text) const { return output.find(text) != std::string::npos; }
};

Ended run(const std::string& command) {
  Ended result;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> part;
  for (size_t count; (count = fread(part.data(), 1, part.size(), pipe)) > 0;) result.output.append(part.data(), count);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

Ended fake(const std::string& options) { return run(FUZZ_FAKE " --patience 1 --failures 2 " + options); }

// The C programs in an output.
std::vector<std::string> programs_of(const std::string& output) {
  std::vector<std::string> programs;
  for (size_t begin = 0; (begin = output.find("\n// aclnn", begin)) != std::string::npos; ++begin) {
    const std::string_view last = "\n  return 0;\n}\n";
    programs.push_back(output.substr(begin + 1, output.find(last, begin) + last.size() - begin - 1));
  }
  return programs;
}

void expect_compiles(const std::string& program) {
  const std::string path = testing::TempDir() + "aclnn_fuzz_program.c";
  std::ofstream(path) << program;
  const Ended compiler =
      run(FUZZ_COMPILER " -std=gnu11 -Wall -Wextra -Werror -Wno-overflow -fsyntax-only -I" FUZZ_INCLUDE " " + path);
  EXPECT_EQ(compiler.status, 0) << compiler.output << program;
}

TEST(Fuzzer, PassesWithoutFailures) {
  const Ended result = fake("--calls 300 --only '^aclnn(Abs|Erf)$'");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(result.has("300 calls, ")) << result.output;
  EXPECT_TRUE(result.has(" 0 crashes, 0 hangs, 0 accesses outside")) << result.output;
}

TEST(Fuzzer, FailsIfAnExampleDoesNotSucceed) {
  const Ended result = fake("--calls 1 --only '^aclnnNeg$'");
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_TRUE(result.has("an example of aclnnNeg did not succeed")) << result.output;
  EXPECT_TRUE(fake("--case 1/aclnnNeg/0").has("aclnnNeg(self=ACL_FLOAT[3, 5] small 1, ")) << "the first case is not the example";
}

TEST(Fuzzer, CountsFailuresAndPrintsPrograms) {
  const Ended result = fake("--calls 500 --attempts 2 --late --coverage");
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.has(" 6 crashes, 2 hangs, 6 accesses outside")) << result.output;
  EXPECT_TRUE(result.has("late: aclnnErf, ")) << result.output;
  EXPECT_TRUE(result.has("never succeeded: aclnnNeg, ")) << result.output;
  EXPECT_FALSE(result.has("never succeeded: aclnnAbs, ")) << result.output;
  const std::vector<std::string> programs = programs_of(result.output);
  EXPECT_EQ(programs.size(), 14u);
  for (const std::string& program : programs) expect_compiles(program);
}

TEST(Fuzzer, DescribesEachFailure) {
  const struct {
    const char* function;
    const char* text;
  } cases[] = {
      {"Sin", ": crash: Segmentation fault"},
      {"Tan", ": crash: Floating point exception"},
      {"Floor", ": hang: no end after 1 s"},
      {"Exp", ": access outside: byte 0 of the memory of tensor 0 belongs to no output and was changed"},
      {"Log", "the red zone of the allocation of"},
      {"Sqrt", " bytes past the end of the allocation of"},
  };
  for (const auto& [function, text] : cases) {
    const Ended result = fake("--calls 20 --attempts 0 --only '^aclnn" + std::string(function) + "$'");
    EXPECT_TRUE(result.has(text)) << function << result.output;
    EXPECT_FALSE(result.has("not when repeated alone")) << function << result.output;
  }
}

TEST(Fuzzer, NamesTheCallsBeforeADelayedCrash) {
  const Ended result = fake("--calls 60 --only '^aclnn(Abs|Ceil)$'");
  EXPECT_TRUE(result.has("(not when repeated alone; before it ran")) << result.output;
  EXPECT_TRUE(result.has(" aclnnCeil aclnnAbs)")) << result.output;
}

TEST(Fuzzer, MakesCasesSimpler) {
  const Ended result = fake("--calls 20 --only '^aclnnSin$'");
  EXPECT_TRUE(result.has("\naclnnSin(self=ACL_FLOAT[] zeros, out=ACL_FLOAT[] zeros)\n")) << result.output;
}

TEST(Fuzzer, DependsOnlyOnTheSeed) {
  const Ended first = fake("--calls 60 --attempts 0 --only '^aclnn(Abs|Sin|Tan)$'");
  EXPECT_EQ(first.output, fake("--calls 60 --attempts 0 --only '^aclnn(Abs|Sin|Tan)$'").output);
  EXPECT_NE(first.output, fake("--calls 60 --attempts 0 --only '^aclnn(Abs|Sin|Tan)$' --seed 2").output);
}

// The second failure of a function depends on the earlier cases of that function.
TEST(Fuzzer, RepeatsACase) {
  const Ended all = fake("--calls 40 --attempts 0 --only '^aclnn(Sin|Abs)$'");
  const size_t begin = all.output.rfind("== aclnnSin, case ");
  ASSERT_NE(begin, std::string::npos) << all.output;
  const size_t name = all.output.find("1/", begin);
  const std::string id = all.output.substr(name, all.output.find(':', name) - name);
  const size_t line = all.output.find('\n', begin) + 1;
  const std::string arguments = all.output.substr(line, all.output.find('\n', line) - line);
  const Ended one = fake("--case " + id);
  EXPECT_EQ(one.status, 1);
  EXPECT_TRUE(one.has(arguments)) << one.output << arguments;
}

TEST(Fuzzer, RepeatsACall) {
  const Ended all = fake("--calls 20 --attempts 0 --only '^aclnnSin$'");
  const size_t begin = all.output.find("\naclnnSin(") + 1;
  const std::string arguments = all.output.substr(begin, all.output.find('\n', begin) - begin);
  const Ended one = fake("--call '" + arguments + "'");
  EXPECT_EQ(one.status, 1);
  EXPECT_TRUE(one.has("\n" + arguments + "\n")) << one.output << arguments;
  EXPECT_EQ(programs_of(one.output)[0], programs_of(all.output)[0]);
}

TEST(Fuzzer, ParsesThePrintedCalls) {
  for (size_t function = 0; function < functions().size(); ++function) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      Random random(seed);
      Case one;
      Case copy;
      generate(random, static_cast<int>(function), one);
      for (uint64_t i = 0; i < seed; ++i) mutate(random, one);
      const std::string text = describe(one);
      ASSERT_TRUE(parse(text, copy)) << text;
      ASSERT_EQ(describe(copy), text);
      ASSERT_EQ(as_program(copy, ""), as_program(one, "")) << text;
    }
  }
}

TEST(Fuzzer, ComputesTheBytesOfTensors) {
  const struct {
    const char* tensor;
    int64_t bytes;
  } cases[] = {
      {"ACL_FLOAT[2, 3] zeros", 24},
      {"ACL_FLOAT[2, 3] strides [4, 1] offset 2 zeros", 36},
      {"ACL_DOUBLE[2, 3] no strides zeros", 48},
      {"ACL_FLOAT[4] strides [0] zeros", 4},
      {"ACL_FLOAT[0, 1099511627776] zeros", 0},
      {"ACL_FLOAT[2] offset -1 zeros", -1},
      {"ACL_FLOAT[2] strides [-1] zeros", -1},
      {"ACL_FLOAT[-1] zeros", -1},
      {"ACL_FLOAT[2, 2] strides [9223372036854775807, 1] zeros", -1},
  };
  for (const auto& [tensor, bytes] : cases) {
    Case one;
    ASSERT_TRUE(parse("aclnnInplaceCos(inputRef=" + std::string(tensor) + ")", one)) << tensor;
    EXPECT_EQ(bytes_of(one.tensors[0]), bytes) << tensor;
  }
}

TEST(Fuzzer, TakesShapesFromRefusals) {
  const struct {
    const char* message;
    const char* text;
  } cases[] = {
      {"aclnnAbs: argument 'out' has shape [3], but the result has shape [4, 5]", "out=ACL_FLOAT[4, 5] zeros)"},
      {"aclnnAbs(...): the output has shape [3], the kernel gives [6]", "out=ACL_FLOAT[6] zeros)"},
      {"aclnnAbs: argument 'out' of shape [3] should be as out[B..., K, 2], where B = [3, 4] and K = 5 [161002 X]",
       "out=ACL_FLOAT[3, 4, 5, 2] zeros)"},
      {"aclnnAbs: argument 'out' of shape [3] should be as out[]", "out=ACL_FLOAT[] zeros)"},
      {"\"aclnnAbs\" not implemented for 'Float': argument 'self' may be int64", "aclnnAbs(self=ACL_INT64[3] zeros"},
  };
  for (const auto& [message, text] : cases) {
    Random random(1);
    Case one;
    ASSERT_TRUE(parse("aclnnAbs(self=ACL_FLOAT[3] zeros, out=ACL_FLOAT[3] zeros)", one));
    EXPECT_TRUE(repair(random, one, message)) << message;
    EXPECT_NE(describe(one).find(text), std::string::npos) << describe(one);
  }
  Random random(1);
  Case one;
  ASSERT_TRUE(parse("aclnnAbs(self=ACL_FLOAT[3] zeros, out=ACL_FLOAT[3] zeros)", one));
  EXPECT_FALSE(repair(random, one, "aclnnAbs: something else")) << describe(one);
}

// One function for each kind of argument.
TEST(Fuzzer, ProgramsOfRealFunctionsCompile) {
  for (const std::string_view name :
       {"aclnnAdds", "aclnnBatchNormBackward", "aclnnCat", "aclnnClamp", "aclnnConvolution", "aclnnDivMod",
        "aclnnEmbeddingDenseBackward", "aclnnForeachAddScalarList", "aclnnGeluBackwardV2", "aclnnIndex", "aclnnNanToNum",
        "aclnnReduceSum", "aclnnUpsampleBilinear2d"}) {
    const auto function =
        std::find_if(functions().begin(), functions().end(), [=](const Function& one) { return one.name == name; });
    ASSERT_NE(function, functions().end()) << name;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Random random(seed);
      Case one;
      generate(random, static_cast<int>(function - functions().begin()), one);
      expect_compiles(as_program(one, std::string(name)));
    }
  }
}

}  // namespace
}  // namespace softnpu::fuzz
