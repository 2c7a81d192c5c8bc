// One test per sentence of runtime/stream/capture.h, and of the functions that capture streams.
#include <functional>
#include <thread>

#include "testing/buffers.h"
#include "testing/capture_fixture.h"

namespace softnpu::test {
namespace {

using CaptureTest = CaptureFixture;

TEST_F(CaptureTest, StreamThatWaitsForACapturedEventIsCaptured) {
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
  EXPECT_EQ(log(), expected) << "streams or replays ran in the wrong order";
}

TEST_F(CaptureTest, EndFailsIfAStreamWasNotJoined) {
  Stream first = make_stream(), second = make_stream();
  Event fork = make_event();
  ASSERT_ACL(aclmdlRICaptureBegin(first, kGlobal));
  ASSERT_ACL(aclrtRecordEvent(fork, first));
  ASSERT_ACL(aclrtStreamWaitEvent(second, fork));
  ASSERT_ACL(launch(second, note('b')));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_STREAM_UNJOINED, end_code(first));
  EXPECT_RECENT_ERROR("record an event behind them");
  EXPECT_EQ(status(second), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  EXPECT_EQ(live_tasks(), 0) << "the captured tasks were not released";
  ASSERT_ACL(launch(second, note('x')));
  ASSERT_ACL(aclrtSynchronizeStream(second));
  EXPECT_EQ(log(), "x");
}

TEST_F(CaptureTest, WaitingForCapturedWorkIsRefusedAndInvalidatesTheCapture) {
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

TEST_F(CaptureTest, ModeDecidesWhichThreadsMayUseTheDeviceWithoutAStream) {
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

TEST_F(CaptureTest, DependenciesOnWorkOutsideTheCaptureAreRefused) {
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
  EXPECT_ACL(aclrtSynchronizeEvent(inside)) << "a new record did not replace the captured one";
}

TEST_F(CaptureTest, DestroyingACapturedStreamEndsTheCapture) {
  Stream stream = make_stream();
  ASSERT_ACL(aclmdlRICaptureBegin(stream, kGlobal));
  ASSERT_ACL(launch(stream, note('a')));
  ASSERT_ACL(aclrtDestroyStreamForce(stream.release()));
  EXPECT_EQ(live_tasks(), 0);
  DeviceBuffer buffer = make_device_buffer(64);
  EXPECT_ACL(aclrtMemset(buffer, 64, 0, 64)) << "the capture did not end";
}

TEST(CaptureModes, CapturesAndGraphsWorkInEveryLaunchMode) {
  REQUIRE_SOFTNPU();
  for (const std::string mode : {"queue", "sync", "shuffle"}) {
    SCOPED_TRACE(mode);
    EXPECT_CHILD_PASSES("CaptureTest.*:GraphTest.*-*ExternalEventHolds*:*HeldReplay*:*UnorderedStreams*:*WhileItRuns*",
                        {"SOFTNPU_LAUNCH=" + mode}, 60s);
  }
}

}  // namespace
}  // namespace softnpu::test
