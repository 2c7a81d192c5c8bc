// One test per sentence of runtime/stream/capture.h and runtime/stream/graph.h, and of the graph functions.
#include <atomic>
#include <mutex>
#include <thread>

#include "testing/buffers.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

using Graph = Owned<aclmdlRIDestroy>;

constexpr auto kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
constexpr auto kThreadLocal = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

class CaptureTest : public AclFixture {
 protected:
  void SetUp() override {
    REQUIRE_SOFTNPU();
    AclFixture::SetUp();
  }
  void TearDown() override {
    if (driver() != nullptr) AclFixture::TearDown();
  }

  static Graph end(aclrtStream stream) {
    aclmdlRI graph = nullptr;
    EXPECT_ACL(aclmdlRICaptureEnd(stream, &graph));
    return Graph(graph);
  }
  static aclError end_code(aclrtStream stream) {
    aclmdlRI graph = reinterpret_cast<aclmdlRI>(1);
    const aclError code = aclmdlRICaptureEnd(stream, &graph);
    EXPECT_EQ(graph == nullptr, code != ACL_SUCCESS);
    const Graph dropped(code == ACL_SUCCESS ? graph : nullptr);
    return code;
  }
  // Appends `letter` to log_.
  Task note(char letter, uint64_t cost = Task::kLargeCost) {
    return {.run =
                [this, letter](char*) {
                  const std::lock_guard guard(mutex_);
                  log_ += letter;
                  return aclError(ACL_SUCCESS);
                },
            .cost = cost};
  }
  std::string log() {
    const std::lock_guard guard(mutex_);
    return log_;
  }
  static aclmdlRICaptureStatus status(aclrtStream stream) {
    auto status = aclmdlRICaptureStatus(-1);
    aclmdlRI graph = nullptr;
    EXPECT_ACL(aclmdlRICaptureGetInfo(stream, &status, &graph));
    EXPECT_EQ(graph == nullptr, status == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    return status;
  }

 private:
  std::mutex mutex_;
  std::string log_;
};

TEST_F(CaptureTest, RecordsTasksThatRunWithEachExecution) {
  Stream stream = make_stream();
  EXPECT_EQ(status(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  EXPECT_EQ(status(stream), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  ASSERT_ACL(launch(stream, note('a', Task::kSmallCost)));
  ASSERT_ACL(launch(stream, note('b')));
  Graph graph = end(stream);
  EXPECT_EQ(status(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(log(), "") << "captured tasks ran";

  Stream other = make_stream();
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, other));
  ASSERT_ACL(aclrtSynchronizeStream(other));
  EXPECT_EQ(log(), "abab");
  ASSERT_ACL(aclmdlRIExecute(graph, -1));
  EXPECT_EQ(log(), "ababab");
}

TEST_F(CaptureTest, CopiesAndFillsAreRepeatedWithWhatIsThereThen) {
  Stream stream = make_stream();
  DeviceBuffer source = make_device_buffer(64), middle = make_device_buffer(64), result = make_device_buffer(64);
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(aclrtMemsetAsync(result, 64, 7, 64, stream));
  ASSERT_ACL(aclrtMemcpyAsync(middle, 64, source, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  ASSERT_ACL(aclrtMemcpyAsync(result, 32, middle, 32, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  Graph graph = end(stream);
  for (uint32_t seed : {1u, 2u}) {
    Bytes expected = pattern(64, seed);
    upload(source, expected);
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    std::fill(expected.begin() + 32, expected.end(), uint8_t(7));
    EXPECT_EQ(download(result, 64), expected);
  }
}

TEST_F(CaptureTest, HostFunctionsAreCalledByEachExecution) {
  Stream stream = make_stream();
  std::atomic<int> calls{0};
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(aclrtLaunchHostFunc(
      stream, [](void* count) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &calls));
  Graph graph = end(stream);
  for (int i = 0; i < 3; ++i) ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(calls, 3);
}

TEST_F(CaptureTest, AStreamThatWaitsForACapturedEventIsCapturedToo) {
  Stream first = make_stream(), second = make_stream();
  Event fork = make_event(), join = make_event();
  ASSERT_ACL(aclmdlRICaptureBegin(first, kGlobal));
  ASSERT_ACL(launch(first, note('a')));
  ASSERT_ACL(aclrtRecordEvent(fork, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
  EXPECT_EQ(status(second), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  ASSERT_ACL(launch(second, note('b')));
  ASSERT_ACL(aclrtRecordEvent(join, second));
  ASSERT_ACL(aclrtStreamWaitEvent(first, join));
  ASSERT_ACL(launch(first, note('c')));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, end_code(second));
  Graph graph = end(first);
  EXPECT_EQ(status(second), ACL_MODEL_RI_CAPTURE_STATUS_NONE);

  std::string expected;
  for (int i = 0; i < 20; ++i) {
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, i % 2 == 0 ? first : second));
    expected += "abc";
  }
  ASSERT_ACL(aclrtSynchronizeDevice());
  EXPECT_EQ(log(), expected) << "the order of streams, or that of replays, was lost";
}

TEST_F(CaptureTest, StreamsWithoutOrderRunBesideEachOther) {
  Stream first = make_stream(), second = make_stream();
  Event fork = make_event(), join = make_event();
  DeviceBuffer word = make_device_buffer(8);
  upload(word, Bytes(8, 0));
  ASSERT_ACL(aclmdlRICaptureBegin(first, kGlobal));
  ASSERT_ACL(aclrtRecordEvent(fork, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
  ASSERT_ACL(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, first));  // what the other stream will write
  ASSERT_ACL(aclrtValueWrite(word, 1, 0, second));
  ASSERT_ACL(aclrtRecordEvent(join, second));
  ASSERT_ACL(aclrtStreamWaitEvent(first, join));
  Graph graph = end(first);
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, first));
  EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(first, 5000));
}

TEST_F(CaptureTest, TheEndFailsIfAStreamWasNotJoined) {
  Stream first = make_stream(), second = make_stream();
  Event fork = make_event();
  ASSERT_ACL(aclmdlRICaptureBegin(first, kGlobal));
  ASSERT_ACL(aclrtRecordEvent(fork, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
  ASSERT_ACL(launch(second, note('b')));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_UNJOINED, end_code(first));
  EXPECT_RECENT_ERROR("record an event behind them");
  EXPECT_EQ(status(second), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  EXPECT_EQ(live_tasks(), 0) << "what was recorded was not let go";
  ASSERT_ACL(launch(second, note('x')));
  ASSERT_ACL(aclrtSynchronizeStream(second));
  EXPECT_EQ(log(), "x");
}

TEST_F(CaptureTest, WaitingForCapturedWorkIsRefusedAndSpoilsTheCapture) {
  Event event = make_event();
  DeviceBuffer buffer = make_device_buffer(64);
  Bytes pageable(64);
  aclrtStreamStatus stream_status{};
  aclrtEventRecordedStatus event_status{};
  struct Case {
    const char* name;
    std::function<aclError(aclrtStream)> call;
    aclError code;
  };
  const std::vector<Case> cases = {
      {"synchronize", [](aclrtStream stream) { return aclrtSynchronizeStream(stream); }, ACL_ERROR_RT_STREAM_CAPTURED},
      {"device", [](aclrtStream) { return aclrtSynchronizeDevice(); }, ACL_ERROR_RT_STREAM_CAPTURED},
      {"query", [&](aclrtStream stream) { return aclrtStreamQuery(stream, &stream_status); }, ACL_ERROR_RT_STREAM_CAPTURED},
      {"event", [&](aclrtStream) { return aclrtSynchronizeEvent(event); }, ACL_ERROR_RT_EVENT_CAPTURED},
      {"event query", [&](aclrtStream) { return aclrtQueryEventStatus(event, &event_status); }, ACL_ERROR_RT_EVENT_CAPTURED},
      {"pageable copy",
       [&](aclrtStream stream) { return aclrtMemcpyAsync(pageable.data(), 64, buffer, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream); },
       ACL_ERROR_RT_STREAM_CAPTURED},
      {"copy", [&](aclrtStream) { return aclrtMemcpy(pageable.data(), 64, buffer, 64, ACL_MEMCPY_DEVICE_TO_HOST); },
       ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT},
      {"fill", [&](aclrtStream) { return aclrtMemset(buffer, 64, 0, 64); }, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    Stream stream = make_stream();
    ASSERT_ACL(aclmdlRICaptureBegin(stream, kThreadLocal));
    ASSERT_ACL(launch(stream, note('a')));
    ASSERT_ACL(aclrtRecordEvent(event, stream));
    EXPECT_ACL_ERROR(each.code, each.call(stream));
    EXPECT_EQ(status(stream), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, launch(stream, note('b')));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, end_code(stream));
    ASSERT_ACL(launch(stream, note('x')));
    EXPECT_ACL(aclrtSynchronizeStream(stream)) << "the stream stayed captured";
  }
  EXPECT_EQ(log(), std::string(cases.size(), 'x'));
  EXPECT_EQ(live_tasks(), 0);
}

TEST_F(CaptureTest, ModesDecideWhoMayUseTheDevicePastItsStreams) {
  Stream stream = make_stream();
  DeviceBuffer buffer = make_device_buffer(64);
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  const auto fill_elsewhere = [&] {
    aclError code = ACL_SUCCESS;
    std::thread([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      code = aclrtMemset(buffer, 64, 0, 64);
    }).join();
    return code;
  };
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kThreadLocal));
  EXPECT_ACL(fill_elsewhere());
  EXPECT_ACL(end_code(stream));

  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, fill_elsewhere());
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, end_code(stream));

  ASSERT_ACL(aclmdlRICaptureBegin(stream, kRelaxed));
  EXPECT_ACL(aclrtMemset(buffer, 64, 0, 64));
  EXPECT_ACL(end_code(stream));

  aclmdlRICaptureMode mode = kRelaxed;
  ASSERT_ACL(aclmdlRICaptureThreadExchangeMode(&mode));
  EXPECT_EQ(mode, kGlobal);
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  EXPECT_ACL(aclrtMemset(buffer, 64, 0, 64));
  EXPECT_ACL(end_code(stream));
  ASSERT_ACL(aclmdlRICaptureThreadExchangeMode(&mode));
  EXPECT_EQ(mode, kRelaxed);
}

TEST_F(CaptureTest, EndsOnTheThreadThatBeganItUnlessItIsRelaxed) {
  Stream stream = make_stream();
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  const auto end_elsewhere = [&] {
    aclError code = ACL_SUCCESS;
    std::thread([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      code = end_code(stream);
    }).join();
    return code;
  };
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, end_elsewhere());
  EXPECT_ACL(end_code(stream));
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kRelaxed));
  EXPECT_ACL(end_elsewhere());
}

TEST_F(CaptureTest, WrongCallsAreRefused) {
  Stream stream = make_stream();
  aclmdlRI graph = nullptr;
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, aclmdlRICaptureBegin(nullptr, kGlobal));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureBegin(stream, aclmdlRICaptureMode(3)));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_NOT_CAPTURED, end_code(stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureTaskGrpBegin(stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureTaskUpdateEnd(stream));
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureBegin(stream, kGlobal));
  auto now = aclmdlRICaptureStatus(-1);
  ASSERT_ACL(aclmdlRICaptureGetInfo(stream, &now, &graph));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIExecuteAsync(graph, stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIDestroy(graph));
  Graph whole = end(stream);
  EXPECT_EQ(whole.get(), graph);
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRIExecuteAsync(whole, stream));
  Graph empty = end(stream);
  EXPECT_ACL(aclmdlRIExecuteAsync(empty, stream));
  EXPECT_ACL(aclmdlRIDestroy(whole.release()));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(graph, stream));
  EXPECT_RECENT_ERROR("a graph that was destroyed");
  EXPECT_REFUSED(aclmdlRIDestroy(stream));
}

TEST_F(CaptureTest, DependenciesAcrossItsEdgeAreRefused) {
  Stream stream = make_stream(), other = make_stream();
  Event before = make_event(), inside = make_event(), never = make_event();
  ASSERT_ACL(aclrtRecordEvent(before, other));
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  EXPECT_ACL(aclrtStreamWaitEvent(stream, never));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_CAPTURE_DEPENDENCY, aclrtStreamWaitEvent(stream, before));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, end_code(stream));

  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(aclrtRecordEvent(inside, stream));
  EXPECT_ACL(end_code(stream));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_CAPTURED, aclrtStreamWaitEvent(other, inside));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEvent(inside));
  ASSERT_ACL(aclrtRecordEvent(inside, stream));
  EXPECT_ACL(aclrtSynchronizeEvent(inside)) << "a new record did not end the captured one";
}

TEST_F(CaptureTest, AGraphMayBeDestroyedWhileItRuns) {
  Stream stream = make_stream();
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(launch(stream, note('a')));
  Graph graph = end(stream);
  {
    Gate gate(stream);
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
    ASSERT_ACL(aclmdlRIDestroy(graph.release()));
    EXPECT_EQ(live_tasks(), 1);
  }
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(log(), "a");
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; })) << "the graph was not let go";
}

TEST_F(CaptureTest, AFailureIsReportedOnceByItsNameAndTheNextReplayRuns) {
  for (const bool on_other_stream : {false, true}) {
    Stream first = make_stream(), second = make_stream();
    Event fork = make_event(), join = make_event();
    std::atomic<bool> breaks{true};
    Task task = failing_task("fragile");
    task.run = [&breaks](char* message) {
      std::snprintf(message, SOFTNPU_TASK_MESSAGE, "it broke");
      return breaks ? ACL_ERROR_RT_AICORE_EXCEPTION : ACL_SUCCESS;
    };
    ASSERT_ACL(aclmdlRICaptureBegin(first, kGlobal));
    ASSERT_ACL(aclrtRecordEvent(fork, first));
    ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
    ASSERT_ACL(launch(on_other_stream ? second : first, task));
    ASSERT_ACL(launch(second, note('s')));
    ASSERT_ACL(aclrtRecordEvent(join, second));
    ASSERT_ACL(aclrtStreamWaitEvent(first, join));
    ASSERT_ACL(launch(first, note('z')));
    Graph graph = end(first);
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, first));
    EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(first));
    EXPECT_RECENT_ERROR("fragile");
    breaks = false;
    EXPECT_ACL(aclrtSynchronizeDevice()) << "it was reported twice";
    const std::string before = log();
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, first));
    EXPECT_ACL(aclrtSynchronizeStream(first));
    EXPECT_EQ(log().substr(before.size()), "sz");
  }
}

TEST_F(CaptureTest, ATaskGroupTakesOtherArguments) {
  Stream stream = make_stream(), update = make_stream();
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(launch(stream, note('a')));
  ASSERT_ACL(aclmdlRICaptureTaskGrpBegin(stream));
  ASSERT_ACL(launch(stream, note('b')));
  ASSERT_ACL(launch(stream, note('c')));
  aclrtTaskGrp group = nullptr;
  ASSERT_ACL(aclmdlRICaptureTaskGrpEnd(stream, &group));
  ASSERT_ACL(launch(stream, note('d')));
  Graph graph = end(stream);

  ASSERT_ACL(aclmdlRICaptureTaskUpdateBegin(update, group));
  ASSERT_ACL(launch(update, note('B')));
  ASSERT_ACL(launch(update, note('C')));
  ASSERT_ACL(aclmdlRICaptureTaskUpdateEnd(update));
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(log(), "aBCd");

  ASSERT_ACL(aclmdlRICaptureTaskUpdateBegin(update, group));
  ASSERT_ACL(launch(update, note('X')));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MODEL_UPDATE_FAILED, aclmdlRICaptureTaskUpdateEnd(update));
  ASSERT_ACL(aclmdlRICaptureTaskUpdateBegin(update, group));
  ASSERT_ACL(launch(update, note('X')));
  ASSERT_ACL(launch(update, failing_task("another")));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_MODEL_UPDATE_FAILED, aclmdlRICaptureTaskUpdateEnd(update));
  EXPECT_RECENT_ERROR("another");
  ASSERT_ACL(launch(update, note('u')));
  ASSERT_ACL(aclrtSynchronizeStream(update));
  EXPECT_EQ(log(), "aBCdu") << "a refused update changed something, or held its stream";
  ASSERT_ACL(aclmdlRIDestroy(graph.release()));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICaptureTaskUpdateBegin(update, group));
}

TEST_F(CaptureTest, AnExternalEventHoldsAReplayUntilItIsRecorded) {
  Stream stream = make_stream(), update = make_stream();
  aclrtEvent made = nullptr;
  ASSERT_ACL(aclrtCreateEventWithFlag(&made, ACL_EVENT_EXTERNAL));
  Event event(made);
  aclrtTaskGrp group = nullptr;
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(aclrtStreamWaitEvent(stream, event));
  ASSERT_ACL(aclrtResetEvent(event, stream));
  ASSERT_ACL(aclmdlRICaptureTaskGrpBegin(stream));
  ASSERT_ACL(launch(stream, note('0')));
  ASSERT_ACL(aclmdlRICaptureTaskGrpEnd(stream, &group));
  Graph graph = end(stream);
  for (const char letter : {'1', '2', '3'}) {
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
    auto state = ACL_STREAM_STATUS_COMPLETE;
    ASSERT_ACL(aclrtStreamQuery(stream, &state));
    EXPECT_EQ(state, ACL_STREAM_STATUS_NOT_READY) << "the replay did not wait";
    ASSERT_ACL(aclmdlRICaptureTaskUpdateBegin(update, group));
    ASSERT_ACL(launch(update, note(letter)));
    ASSERT_ACL(aclmdlRICaptureTaskUpdateEnd(update));
    ASSERT_ACL(aclrtRecordEvent(event, update));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
  }
  EXPECT_EQ(log(), "123");
}

TEST_F(CaptureTest, AHeldReplayIsQueuedWithoutWaitingForRoom) {
  constexpr int kTasks = 3000;
  Stream stream = make_stream(), other = make_stream(), update = make_stream();
  aclrtEvent made = nullptr;
  ASSERT_ACL(aclrtCreateEventWithFlag(&made, ACL_EVENT_EXTERNAL));
  Event event(made), fork = make_event(), join = make_event();
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(aclrtStreamWaitEvent(stream, event));
  ASSERT_ACL(aclrtResetEvent(event, stream));
  ASSERT_ACL(aclrtRecordEvent(fork, stream));
  ASSERT_ACL(aclrtStreamWaitEvent(other, fork));
  std::atomic<int> counts[2] = {0, 0}, disorder{0};
  for (int i = 0; i < kTasks; ++i) {
    for (const int side : {0, 1}) {
      ASSERT_ACL(launch(side == 0 ? stream : other, {.run = [&counts, &disorder, side, i](char*) {
                          if (counts[side]++ % kTasks != i) ++disorder;
                          return aclError(ACL_SUCCESS);
                        }}));
    }
  }
  ASSERT_ACL(aclrtRecordEvent(join, other));
  ASSERT_ACL(aclrtStreamWaitEvent(stream, join));
  Graph graph = end(stream);
  for (const int turn : {1, 2}) {
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
    EXPECT_EQ(counts[0] + counts[1], (turn - 1) * 2 * kTasks) << "the replay did not wait";
    ASSERT_ACL(aclrtRecordEvent(event, update));
    ASSERT_ACL(aclrtSynchronizeStream(stream));
    EXPECT_EQ(counts[0], turn * kTasks);
    EXPECT_EQ(counts[1], turn * kTasks);
  }
  EXPECT_EQ(disorder, 0);
}

TEST_F(CaptureTest, DestroyingACapturedStreamEndsIt) {
  Stream stream = make_stream();
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(launch(stream, note('a')));
  ASSERT_ACL(aclrtDestroyStreamForce(stream.release()));
  EXPECT_EQ(live_tasks(), 0);
  DeviceBuffer buffer = make_device_buffer(64);
  EXPECT_ACL(aclrtMemset(buffer, 64, 0, 64)) << "the capture is still going on";
}

TEST_F(CaptureTest, TheGraphCanBeWrittenDown) {
  Stream first = make_stream(), second = make_stream();
  Event fork = make_event(), join = make_event();
  ASSERT_ACL(aclmdlRICaptureBegin(first, kGlobal));
  ASSERT_ACL(launch(first, note('a')));
  ASSERT_ACL(aclrtRecordEvent(fork, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
  ASSERT_ACL(launch(second, note('b')));
  ASSERT_ACL(aclrtRecordEvent(join, second));
  ASSERT_ACL(aclrtStreamWaitEvent(first, join));
  Graph graph = end(first);
  const TempDir folder;
  const std::string path = (folder.path() / "graph.json").string();
  ASSERT_ACL(aclmdlRIDebugPrint(graph));
  ASSERT_ACL(aclmdlRIDebugJsonPrint(graph, path.c_str(), 0));
  EXPECT_PRED_FORMAT2(contains, read_file(path), R"({"id": 1, "name": "test_task", "stream": 1, "after": [0]})");
  EXPECT_REFUSED(aclmdlRIDebugJsonPrint(graph, (folder.path() / "no/such/file").c_str(), 0));
}

TEST_F(CaptureTest, LongGraphsFillTheirStreams) {
  Stream stream = make_stream();
  std::atomic<int> count{0};
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  for (int i = 0; i < 3000; ++i) {
    ASSERT_ACL(launch(stream, {.run = [&count](char*) {
                        ++count;
                        return aclError(ACL_SUCCESS);
                      }}));
  }
  Graph graph = end(stream);
  for (int i = 0; i < 3; ++i) ASSERT_ACL(aclmdlRIExecuteAsync(graph, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_EQ(count, 9000);
}

TEST_F(CaptureTest, ThreadsCaptureReplayUpdateAndDestroyAtOnce) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::atomic<int> ran{0};
  const auto task = [&ran] {
    return Task{.run =
                    [&ran](char*) {
                      ++ran;
                      return aclError(ACL_SUCCESS);
                    },
                .cost = Task::kSmallCost};
  };
  const auto work = [&] {
    EXPECT_ACL(aclrtSetCurrentContext(context));
    Stream first = make_stream(), second = make_stream(), third = make_stream();
    Event fork = make_event(), join = make_event();
    for (int round = 0; round < 20; ++round) {
      aclrtTaskGrp group = nullptr;
      EXPECT_ACL(aclmdlRICaptureBegin(first, kThreadLocal));
      EXPECT_ACL(launch(first, task()));
      EXPECT_ACL(aclrtRecordEvent(fork, first));
      EXPECT_ACL(aclrtStreamWaitEvent(second, fork));
      EXPECT_ACL(aclmdlRICaptureTaskGrpBegin(second));
      EXPECT_ACL(launch(second, task()));
      EXPECT_ACL(aclmdlRICaptureTaskGrpEnd(second, &group));
      EXPECT_ACL(aclrtRecordEvent(join, second));
      EXPECT_ACL(aclrtStreamWaitEvent(first, join));
      Graph graph = end(first);
      for (const Stream* stream : {&first, &second, &third}) {
        EXPECT_ACL(aclmdlRIExecuteAsync(graph, *stream));
        EXPECT_ACL(aclmdlRICaptureTaskUpdateBegin(third, group));
        EXPECT_ACL(launch(third, task()));
        EXPECT_ACL(aclmdlRICaptureTaskUpdateEnd(third));
      }
    }
    for (const Stream* stream : {&first, &second, &third}) EXPECT_ACL(aclrtSynchronizeStream(*stream));
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, 3 * 20 * 3 * 2);
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; }));
}

TEST(CaptureModes, AreTheSameInEveryLaunchMode) {
  REQUIRE_SOFTNPU();
  for (const std::string mode : {"queue", "sync", "shuffle"}) {
    SCOPED_TRACE(mode);
    EXPECT_CHILD_PASSES("CaptureTest.*-*AnExternalEventHolds*:*AHeldReplay*:*StreamsWithoutOrder*:*WhileItRuns*",
                        {"SOFTNPU_LAUNCH=" + mode}, 60s);
  }
}

}  // namespace
}  // namespace softnpu::test
