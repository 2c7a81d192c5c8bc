// One test per sentence of runtime/stream/graph.h, and of the functions that run, update and print graphs.
#include <atomic>
#include <thread>

#include "testing/buffers.h"
#include "testing/capture_fixture.h"
#include "testing/temp_dir.h"

namespace softnpu::test {
namespace {

using GraphTest = CaptureFixture;

TEST_F(GraphTest, RecordsTasksThatRunWithEachExecution) {
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

TEST_F(GraphTest, CopiesAndFillsUseTheContentsAtTheTimeOfTheReplay) {
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

TEST_F(GraphTest, HostFunctionsAreCalledByEachExecution) {
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

TEST_F(GraphTest, UnorderedStreamsRunAtTheSameTime) {
  Stream first = make_stream(), second = make_stream();
  Event fork = make_event(), join = make_event();
  DeviceBuffer word = make_device_buffer(8);
  upload(word, Bytes(8, 0));
  ASSERT_ACL(aclmdlRICaptureBegin(first, kGlobal));
  ASSERT_ACL(aclrtRecordEvent(fork, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
  ASSERT_ACL(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, first));  // the other stream writes it
  ASSERT_ACL(aclrtValueWrite(word, 1, 0, second));
  ASSERT_ACL(aclrtRecordEvent(join, second));
  ASSERT_ACL(aclrtStreamWaitEvent(first, join));
  Graph graph = end(first);
  ASSERT_ACL(aclmdlRIExecuteAsync(graph, first));
  EXPECT_ACL(aclrtSynchronizeStreamWithTimeout(first, 5000));
}

TEST_F(GraphTest, GraphMayBeDestroyedWhileItRuns) {
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
  EXPECT_TRUE(eventually([] { return live_tasks() == 0; })) << "the graph was not released";
}

TEST_F(GraphTest, FailureIsReportedOnceWithTheTaskNameAndTheNextReplayRuns) {
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
    EXPECT_ACL(aclrtSynchronizeDevice()) << "the failure was reported twice";
    const std::string before = log();
    ASSERT_ACL(aclmdlRIExecuteAsync(graph, first));
    EXPECT_ACL(aclrtSynchronizeStream(first));
    EXPECT_EQ(log().substr(before.size()), "sz");
  }
}

TEST_F(GraphTest, TaskGroupCanBeReplaced) {
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
  EXPECT_EQ(log(), "aBCdu") << "a refused update changed the graph or blocked its stream";
  ASSERT_ACL(aclmdlRIDestroy(graph.release()));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICaptureTaskUpdateBegin(update, group));
}

TEST_F(GraphTest, ExternalEventHoldsAReplayUntilItIsRecorded) {
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

TEST_F(GraphTest, HeldReplayIsQueuedThoughItsStreamIsFull) {
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

TEST_F(GraphTest, GraphCanBePrintedAsJson) {
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

TEST_F(GraphTest, GraphMayHaveMoreTasksThanAStreamHolds) {
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

TEST_F(GraphTest, ThreadsCaptureReplayUpdateAndDestroyAtOnce) {
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

}  // namespace
}  // namespace softnpu::test
