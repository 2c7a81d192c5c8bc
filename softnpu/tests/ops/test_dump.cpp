// Dumps of operators (runtime/dump/dumps.h): the contents of the files, and the operators that are dumped.
#include <algorithm>
#include <set>
#include <thread>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_adds.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_neg.h"
#include "aclnnop/aclnn_nonzero.h"
#include "ops/dump_fixture.h"
#include "runtime/softnpu.h"
#include "testing/capture_fixture.h"

#if SOFTNPU_TESTS_DUMPS

namespace softnpu::test {
namespace {

class DumpTest : public DumpFixture {};

bool is_number(const std::string& text, size_t digits = 0) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }) &&
         (digits == 0 || text.size() == digits);
}

TEST_F(DumpTest, FileHoldsInputsAndOutputsOfAnOperator) {
  begin();
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  const OperatorDump& dump = dumps[0];
  EXPECT_EQ(dump.version, "2.0");
  EXPECT_EQ(dump.op_name, "aclnnAdd");
  ASSERT_EQ(dump.inputs.size(), 2U);
  ASSERT_EQ(dump.outputs.size(), 1U);
  EXPECT_EQ(dump.inputs[0].as<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(dump.inputs[1].as<float>(), (Floats{10, 20, 30, 40}));
  EXPECT_EQ(dump.outputs[0].as<float>(), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(dump.outputs[0].dtype, 1) << "the number of float32";
  EXPECT_EQ(dump.outputs[0].format, 2) << "the number of ND";
  EXPECT_EQ(dump.outputs[0].sizes, Sizes{4});
}

TEST_F(DumpTest, FileIsNamedAfterOperatorTaskStreamAndTime) {
  begin();
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  ASSERT_EQ(dumps[0].name.size(), 5U);
  int32_t id = -1;
  ASSERT_ACL(aclrtStreamGetId(stream, &id));
  EXPECT_EQ(dumps[0].name[0], "Add");
  EXPECT_EQ(dumps[0].name[1], "aclnnAdd");
  EXPECT_TRUE(is_number(dumps[0].name[2]));
  EXPECT_EQ(dumps[0].name[3], std::to_string(id));
  EXPECT_EQ(dumps[0].name[4], std::to_string(dumps[0].time));
  EXPECT_TRUE(is_number(dumps[0].name[4], 16)) << "microseconds since 1970";
  ASSERT_EQ(dumps[0].folders.size(), 4U);
  EXPECT_TRUE(is_number(dumps[0].folders[0], 14)) << "year to second";
  EXPECT_EQ(dumps[0].folders[1], "0") << "the device";
  EXPECT_EQ(dumps[0].folders[2] + dumps[0].folders[3], "00") << "model and index";
}

TEST_F(DumpTest, ModeSelectsInputsOrOutputs) {
  const auto counts = [&](const std::string& members) {
    std::filesystem::remove_all(output());
    begin(members);
    EXPECT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
    const auto dumps = end();
    return dumps.size() != 1 ? std::string("no file")
                             : std::to_string(dumps[0].inputs.size()) + " " + std::to_string(dumps[0].outputs.size());
  };
  EXPECT_EQ(counts(""), "0 1") << "outputs are the default";
  EXPECT_EQ(counts(R"("dump_mode": "output")"), "0 1");
  EXPECT_EQ(counts(R"("dump_mode": "input")"), "2 0");
  EXPECT_EQ(counts(R"("dump_mode": "all")"), "2 1");
}

TEST_F(DumpTest, ListNamesTheOperators) {
  const auto names = [&](const std::string& list) {
    std::filesystem::remove_all(output());
    EXPECT_ACL(aclmdlInitDump());
    const std::string text = R"({"dump": {"dump_path": ")" + output().string() + R"(", "dump_op_switch": "on", "dump_list": )";
    EXPECT_ACL(aclmdlSetDump(write_file(folder.path() / "list.json", text + list + "}}").c_str()));
    EXPECT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
    EXPECT_ACL(CALL(aclnnMul, stream, a, b, out));
    EXPECT_ACL(CALL(aclnnNeg, stream, a, out));
    std::string found;
    for (const OperatorDump& dump : end()) found += dump.name[0] + " ";
    return found;
  };
  EXPECT_EQ(names("[]"), "Add Mul Neg ");
  EXPECT_EQ(names(R"(["aclnnMul"])"), "Mul ");
  EXPECT_EQ(names(R"(["Neg", "Add"])"), "Add Neg ");
  EXPECT_EQ(names(R"([{"model_name": "m", "layer": ["Mul", "Neg"]}])"), "Mul Neg ");
  EXPECT_EQ(names(R"(["Ad"])"), "");
}

TEST_F(DumpTest, OperatorInPlaceHasTheValuesBeforeAndAfter) {
  begin();
  ASSERT_ACL(CALL(aclnnInplaceAdd, stream, a, b, one));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  ASSERT_EQ(dumps[0].inputs.size(), 2U);
  EXPECT_EQ(dumps[0].inputs[0].as<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(dumps[0].outputs.at(0).as<float>(), (Floats{11, 22, 33, 44}));
}

TEST_F(DumpTest, ViewsAreWrittenContiguous) {
  Operand base({7}, {0, 1, 2, 3, 4, 5, 6});
  Operand result({3, 2}), few({2, 2}), wide({2, 3});
  begin(R"("dump_mode": "input")");
  ASSERT_ACL(CALL(aclnnInplaceCopy, stream, result, describe(base.address(), {3, 2}, ACL_FLOAT, {1, 3})));
  ASSERT_ACL(CALL(aclnnInplaceCopy, stream, few, describe(base.address(), {2, 2}, ACL_FLOAT, {3, 2}, 1)));
  ASSERT_ACL(CALL(aclnnInplaceCopy, stream, wide, describe(base.address(), {2, 3}, ACL_FLOAT, {1, 0}, 4)));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 3U);
  EXPECT_EQ(dumps[0].inputs.back().as<float>(), (Floats{0, 3, 1, 4, 2, 5})) << "transposed";
  EXPECT_EQ(dumps[0].inputs.back().sizes, (Sizes{3, 2}));
  EXPECT_EQ(dumps[1].inputs.back().as<float>(), (Floats{1, 3, 4, 6})) << "with gaps and an offset";
  EXPECT_EQ(dumps[2].inputs.back().as<float>(), (Floats{4, 4, 4, 5, 5, 5})) << "expanded";
}

TEST_F(DumpTest, StridedOutputIsWrittenContiguous) {
  Operand target({8}, {9, 9, 9, 9, 9, 9, 9, 9});
  begin();
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, describe(target.address(), {4}, ACL_FLOAT, {2})));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  EXPECT_EQ(dumps[0].outputs.at(0).as<float>(), (Floats{11, 22, 33, 44}));
}

TEST_F(DumpTest, EmptyAndZeroDimensionalTensorsAreWritten) {
  Operand empty({0, 3}), none({0, 3}), number({}, {5}), result({});
  begin();
  ASSERT_ACL(CALL(aclnnNeg, stream, empty, none));
  ASSERT_ACL(CALL(aclnnNeg, stream, number, result));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 2U);
  EXPECT_EQ(dumps[0].inputs.at(0).sizes, (Sizes{0, 3}));
  EXPECT_EQ(dumps[0].inputs.at(0).data, "");
  EXPECT_EQ(dumps[1].outputs.at(0).sizes, Sizes{});
  EXPECT_EQ(dumps[1].outputs.at(0).as<float>(), Floats{-5});
}

TEST_F(DumpTest, OutputHasTheShapeThatTheKernelDecided) {
  Operand values({4}, {0, 7, 0, 8});
  DeviceBuffer buffer = make_device_buffer(4 * sizeof(int64_t));
  begin();
  ASSERT_ACL(CALL(aclnnNonzero, stream, values, describe(buffer, {4, 1}, ACL_INT64)));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  EXPECT_EQ(dumps[0].outputs.at(0).sizes, (Sizes{2, 1}));
  EXPECT_EQ(dumps[0].outputs.at(0).as<int64_t>(), (std::vector<int64_t>{1, 3}));
}

TEST_F(DumpTest, QueuedOperatorsHoldWhatTheirKernelsReadAndWrote) {
  Gate gate(stream);
  begin();
  for (int round = 0; round < 3; ++round) ASSERT_ACL(CALL(aclnnInplaceAdd, stream, a, b, one));
  Stream other = make_stream();
  ASSERT_ACL(CALL(aclnnInplaceFillScalar, other, a, scalar(100)));
  ASSERT_ACL(aclrtSynchronizeStream(other));
  gate.open();
  auto dumps = end();
  std::erase_if(dumps, [](const OperatorDump& dump) { return dump.op_name != "aclnnInplaceAdd"; });
  ASSERT_EQ(dumps.size(), 3U);
  for (size_t round = 0; round < 3; ++round) {
    EXPECT_EQ(dumps[round].inputs.at(0).as<float>()[0], 100 + 10 * float(round)) << round;
    EXPECT_EQ(dumps[round].outputs.at(0).as<float>()[0], 110 + 10 * float(round)) << round;
    if (round > 0) {
      EXPECT_GT(std::stoull(dumps[round].name[2]), std::stoull(dumps[round - 1].name[2])) << "numbers of the tasks";
    }
  }
}

TEST_F(DumpTest, OperatorsThatAreLaunchedWhileItIsOnAreDumped) {
  {
    Gate gate(stream);
    ASSERT_ACL(CALL(aclnnNeg, stream, a, out));
    begin();
    ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
    ASSERT_ACL(aclmdlFinalizeDump());
    ASSERT_ACL(CALL(aclnnMul, stream, a, b, out));
    EXPECT_TRUE(read_dumps(output()).empty()) << "no operator has run";
    gate.open();
    ASSERT_ACL(aclrtSynchronizeStream(stream));
  }
  ASSERT_TRUE(eventually([&] { return read_dumps(output()).size() == 1; }));
  EXPECT_EQ(read_dumps(output())[0].op_name, "aclnnAdd");
}

TEST_F(DumpTest, StreamsAndThreadsDoNotMixTheirValues) {
  constexpr int kThreads = 4, kRounds = 40;
  begin();
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([number] {
      ASSERT_ACL(aclrtSetDevice(0));
      Stream own = make_stream();
      Operand value({3}, Floats(3, float(1000 * number)));
      const ScalarObject step = scalar(1), alpha = scalar(1);
      for (int round = 0; round < kRounds; ++round) ASSERT_ACL(CALL(aclnnInplaceAdds, own, value, step, alpha));
      EXPECT_EQ(value.read(own), Floats(3, float(1000 * number + kRounds)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), size_t(kThreads * kRounds));
  std::map<std::string, std::vector<float>> of_stream;
  for (const OperatorDump& dump : dumps) {
    const float before = dump.inputs.at(0).as<float>()[0];
    EXPECT_EQ(dump.outputs.at(0).as<float>(), Floats(3, before + 1));
    of_stream[std::to_string(int(before) / 1000)].push_back(before);
  }
  for (const auto& [name, values] : of_stream) {
    EXPECT_EQ(values.size(), size_t(kRounds));
    EXPECT_TRUE(std::ranges::is_sorted(values)) << "the times of the files are not in the order of the stream";
  }
}

TEST_F(DumpTest, ReplaysAreDumpedAndTheirCaptureIsNot) {
  Stream captured = make_stream();
  begin();
  ASSERT_ACL(aclmdlRICaptureBegin(captured, kGlobal));
  ASSERT_ACL(CALL(aclnnInplaceAdd, captured, a, b, one));
  ASSERT_ACL(CALL(aclnnNeg, captured, a, out));
  aclmdlRI graph = nullptr;
  ASSERT_ACL(aclmdlRICaptureEnd(captured, &graph));
  const Graph owner(graph);
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_TRUE(read_dumps(output()).empty());
  for (int replay = 0; replay < 2; ++replay) ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
  const auto dumps = end();
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));  // off: no file
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(read_dumps(output()).size(), 4U);
  ASSERT_EQ(dumps.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    const auto replay = i / 2;
    EXPECT_EQ(dumps[i].op_name, i % 2 == 0 ? "aclnnInplaceAdd" : "aclnnNeg");
    EXPECT_EQ(dumps[i].inputs.at(0).as<float>()[0], i % 2 == 0 ? 1 + 10 * float(replay) : 11 + 10 * float(replay));
    EXPECT_GE(std::stoi(dumps[i].folders.at(2)), 1) << "the number of the graph";
    EXPECT_EQ(dumps[i].folders.at(2), dumps[0].folders.at(2));
    EXPECT_EQ(dumps[i].folders.at(3), std::to_string(replay)) << "the number of the replay";
  }
}

TEST_F(DumpTest, GraphThatWasCapturedBeforeIsDumped) {
  Stream captured = make_stream();
  ASSERT_ACL(aclmdlRICaptureBegin(captured, kGlobal));
  ASSERT_ACL(CALL(aclnnNeg, captured, a, out));
  aclmdlRI graph = nullptr;
  ASSERT_ACL(aclmdlRICaptureEnd(captured, &graph));
  const Graph owner(graph);
  begin();
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  EXPECT_EQ(dumps[0].outputs.at(0).as<float>(), (Floats{-1, -2, -3, -4}));
}

TEST_F(DumpTest, GraphAsJsonHasTheTensorsIfTheyAreWanted) {
  Stream captured = make_stream();
  ASSERT_ACL(aclmdlRICaptureBegin(captured, kGlobal));
  ASSERT_ACL(CALL(aclnnInplaceAdd, captured, a, b, one));
  aclmdlRI graph = nullptr;
  ASSERT_ACL(aclmdlRICaptureEnd(captured, &graph));
  const Graph owner(graph);
  const std::string path = (folder.path() / "graph.json").string();
  const std::string task = R"({"id": 0, "name": "aclnnInplaceAdd", "stream": 0, "after": [])";
  ASSERT_ACL(aclmdlRIDebugJsonPrint(graph, path.c_str(), ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY));
  EXPECT_NE(read_file(path).find(task + "}"), std::string::npos) << read_file(path);
  ASSERT_ACL(aclmdlRIDebugJsonPrint(graph, path.c_str(), ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE));
  const std::string tensor = R"("dtype": "float32", "format": 2, "shape": [4], "strides": [1]})";
  const std::string tensors =
      R"(, "tensors": [{"role": "input and output", )" + tensor + R"(, {"role": "input", )" + tensor + "]}";
  EXPECT_NE(read_file(path).find(task + tensors), std::string::npos) << read_file(path);
}

TEST_F(DumpTest, OperatorThatFailsWritesNoFile) {
  begin();
  std::string reply(64, '\0');
  ASSERT_ACL(softnpuControl("faults launch:1", reply.data(), reply.size()));
  ASSERT_ACL(CALL(aclnnNeg, stream, a, out));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
  recent_error();
  ASSERT_ACL(softnpuControl("faults off", reply.data(), reply.size()));
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 1U);
  EXPECT_EQ(dumps[0].op_name, "aclnnAdd");
}

TEST_F(DumpTest, EachSetBeginsAnotherDump) {
  begin(R"("dump_mode": "input")");
  ASSERT_ACL(CALL(aclnnNeg, stream, a, out));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  ASSERT_ACL(aclmdlSetDump(write_file(folder.path() / "other.json", config(R"("dump_mode": "output")")).c_str()));
  ASSERT_ACL(CALL(aclnnNeg, stream, a, out));
  const auto dumps = end();
  ASSERT_EQ(dumps.size(), 2U);
  EXPECT_TRUE(dumps[0].outputs.empty());
  EXPECT_TRUE(dumps[1].inputs.empty());
}

}  // namespace
}  // namespace softnpu::test

#endif
