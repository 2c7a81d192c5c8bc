// One test per sentence of runtime/base/handle.h: handles that are null, garbage, destroyed, of another kind or of another
// context.
#include <atomic>
#include <set>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

struct Call {
  const char* name;
  std::function<aclError(void* handle)> call;
};

void do_nothing(void*) {}

// Every function that takes a stream.
const std::vector<Call>& stream_calls() {
  static const auto* calls = new std::vector<Call>{
      {"aclrtDestroyStream", [](void* h) { return aclrtDestroyStream(h); }},
      {"aclrtDestroyStreamForce", [](void* h) { return aclrtDestroyStreamForce(h); }},
      {"aclrtSynchronizeStream", [](void* h) { return aclrtSynchronizeStream(h); }},
      {"aclrtSynchronizeStreamWithTimeout", [](void* h) { return aclrtSynchronizeStreamWithTimeout(h, 1); }},
      {"aclrtStreamQuery",
       [](void* h) {
         aclrtStreamStatus status{};
         return aclrtStreamQuery(h, &status);
       }},
      {"aclrtStreamGetId",
       [](void* h) {
         int32_t id = 0;
         return aclrtStreamGetId(h, &id);
       }},
      {"aclrtSetStreamFailureMode", [](void* h) { return aclrtSetStreamFailureMode(h, 0); }},
      {"aclrtSetStreamOverflowSwitch", [](void* h) { return aclrtSetStreamOverflowSwitch(h, 0); }},
      {"aclrtGetStreamOverflowSwitch",
       [](void* h) {
         uint32_t flag = 0;
         return aclrtGetStreamOverflowSwitch(h, &flag);
       }},
      {"aclrtSetStreamAttribute",
       [](void* h) {
         aclrtStreamAttrValue value{};
         return aclrtSetStreamAttribute(h, ACL_STREAM_ATTR_FAILURE_MODE, &value);
       }},
      {"aclrtGetStreamAttribute",
       [](void* h) {
         aclrtStreamAttrValue value{};
         return aclrtGetStreamAttribute(h, ACL_STREAM_ATTR_FAILURE_MODE, &value);
       }},
      {"aclrtSetStreamResLimit", [](void* h) { return aclrtSetStreamResLimit(h, ACL_RT_DEV_RES_CUBE_CORE, 1); }},
      {"aclrtGetStreamResLimit",
       [](void* h) {
         uint32_t value = 0;
         return aclrtGetStreamResLimit(h, ACL_RT_DEV_RES_CUBE_CORE, &value);
       }},
      {"aclrtResetStreamResLimit", [](void* h) { return aclrtResetStreamResLimit(h); }},
      {"aclrtUseStreamResInCurrentThread", [](void* h) { return aclrtUseStreamResInCurrentThread(h); }},
      {"aclrtUnuseStreamResInCurrentThread", [](void* h) { return aclrtUnuseStreamResInCurrentThread(h); }},
      {"aclrtStreamAbort", [](void* h) { return aclrtStreamAbort(h); }},
      {"aclrtLaunchHostFunc", [](void* h) { return aclrtLaunchHostFunc(h, do_nothing, nullptr); }},
      {"aclrtLaunchCallback", [](void* h) { return aclrtLaunchCallback(do_nothing, nullptr, ACL_CALLBACK_NO_BLOCK, h); }},
      {"aclrtSubscribeReport", [](void* h) { return aclrtSubscribeReport(1, h); }},
      {"aclrtUnSubscribeReport", [](void* h) { return aclrtUnSubscribeReport(1, h); }},
      {"aclrtResetOverflowStatus", [](void* h) { return aclrtResetOverflowStatus(h); }},
      {"aclrtRecordEvent",
       [](void* h) {
         Event event = make_event();
         return aclrtRecordEvent(event, h);
       }},
      {"aclrtStreamWaitEvent",
       [](void* h) {
         Event event = make_event();
         return aclrtStreamWaitEvent(h, event);
       }},
      {"aclrtMemsetAsync",
       [](void* h) {
         DeviceBuffer buffer = make_device_buffer(64);
         return aclrtMemsetAsync(buffer, 64, 0, 64, h);
       }},
  };
  return *calls;
}

// Every function that takes an event.
const std::vector<Call>& event_calls() {
  static const auto* calls = new std::vector<Call>{
      {"aclrtDestroyEvent", [](void* h) { return aclrtDestroyEvent(h); }},
      {"aclrtRecordEvent", [](void* h) { return aclrtRecordEvent(h, nullptr); }},
      {"aclrtResetEvent", [](void* h) { return aclrtResetEvent(h, nullptr); }},
      {"aclrtStreamWaitEvent", [](void* h) { return aclrtStreamWaitEvent(nullptr, h); }},
      {"aclrtSynchronizeEvent", [](void* h) { return aclrtSynchronizeEvent(h); }},
      {"aclrtSynchronizeEventWithTimeout", [](void* h) { return aclrtSynchronizeEventWithTimeout(h, 1); }},
      {"aclrtQueryEvent",
       [](void* h) {
         aclrtEventStatus status{};
         return aclrtQueryEvent(h, &status);
       }},
      {"aclrtQueryEventStatus",
       [](void* h) {
         aclrtEventRecordedStatus status{};
         return aclrtQueryEventStatus(h, &status);
       }},
      {"aclrtQueryEventWaitStatus",
       [](void* h) {
         aclrtEventWaitStatus status{};
         return aclrtQueryEventWaitStatus(h, &status);
       }},
      {"aclrtEventElapsedTime",
       [](void* h) {
         float elapsed = 0;
         return aclrtEventElapsedTime(&elapsed, h, h);
       }},
      {"aclrtEventGetTimestamp",
       [](void* h) {
         uint64_t timestamp = 0;
         return aclrtEventGetTimestamp(h, &timestamp);
       }},
      {"aclrtGetEventId",
       [](void* h) {
         uint32_t id = 0;
         return aclrtGetEventId(h, &id);
       }},
      {"aclrtIpcGetEventHandle",
       [](void* h) {
         aclrtIpcEventHandle handle{};
         return aclrtIpcGetEventHandle(h, &handle);
       }},
  };
  return *calls;
}

const std::vector<Call>& context_calls() {
  static const auto* calls = new std::vector<Call>{
      {"aclrtDestroyContext", [](void* h) { return aclrtDestroyContext(h); }},
      {"aclrtSetCurrentContext", [](void* h) { return aclrtSetCurrentContext(h); }},
  };
  return *calls;
}

class HandleTest : public AclFixture {
 protected:
  static void expect_refused(const std::vector<Call>& calls, void* handle, aclError code, const char* words) {
    for (const Call& call : calls) {
      SCOPED_TRACE(call.name);
      EXPECT_ACL_ERROR(code, call.call(handle));
      const std::string message = recent_error();
      EXPECT_NE(message.find(words), std::string::npos) << "'" << words << "' is not in: " << message;
      EXPECT_NE(message.find(call.name), std::string::npos) << message;
    }
  }
};

TEST_F(HandleTest, NullIsAnInvalidParameter) {
  expect_refused(event_calls(), nullptr, ACL_ERROR_INVALID_PARAM, "null");
  expect_refused(context_calls(), nullptr, ACL_ERROR_INVALID_PARAM, "null");
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtDestroyStream(nullptr));
  EXPECT_ACL_ERROR(ACL_ERROR_INVALID_PARAM, aclrtDestroyStreamForce(nullptr));
}

TEST_F(HandleTest, DestroyedObjectsAreRefused) {
  aclrtStream stream = make_stream().release();
  ASSERT_ACL(aclrtDestroyStream(stream));
  expect_refused(stream_calls(), stream, ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
  aclrtEvent event = make_event().release();
  ASSERT_ACL(aclrtDestroyEvent(event));
  expect_refused(event_calls(), event, ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
  aclrtContext primary = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&primary));
  aclrtContext context = make_context().release();
  ASSERT_ACL(aclrtDestroyContext(context));
  expect_refused(context_calls(), context, ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
  ASSERT_ACL(aclrtSetCurrentContext(primary));
}

TEST_F(HandleTest, DestroyedObjectsAreRefusedAfterTheirSlotWasReused) {
  aclrtStream stream = make_stream().release();
  aclrtEvent event = make_event().release();
  ASSERT_ACL(aclrtDestroyStream(stream));
  ASSERT_ACL(aclrtDestroyEvent(event));
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (int count = 0; count < 10; ++count) {
    streams.push_back(make_stream());
    events.push_back(make_event());
  }
  expect_refused(stream_calls(), stream, ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
  expect_refused(event_calls(), event, ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
}

TEST_F(HandleTest, HandleOfAnotherKindIsNamed) {
  Stream stream = make_stream();
  Event event = make_event();
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  expect_refused(stream_calls(), event, ACL_ERROR_RT_INVALID_HANDLE, "event");
  expect_refused(stream_calls(), context, ACL_ERROR_RT_INVALID_HANDLE, "context");
  expect_refused(event_calls(), stream, ACL_ERROR_RT_INVALID_HANDLE, "stream");
  expect_refused(event_calls(), context, ACL_ERROR_RT_INVALID_HANDLE, "context");
  expect_refused(context_calls(), stream, ACL_ERROR_RT_INVALID_HANDLE, "stream");
  expect_refused(context_calls(), event, ACL_ERROR_RT_INVALID_HANDLE, "event");
}

TEST_F(HandleTest, GarbageIsRefused) {
  Stream stream = make_stream();
  Event event = make_event();
  const auto bits_of = [](void* handle) { return reinterpret_cast<uintptr_t>(handle); };
  std::vector<uintptr_t> garbage = {1, 0xdeadbeef, ~uintptr_t{0}, bits_of(&stream), 0xA5C0000000000000};
  for (const void* handle : {stream.get(), event.get()}) {
    for (const int bit : {0, 23, 24, 47, 48, 51, 52, 63}) {  // a bit of each part of a handle
      garbage.push_back(reinterpret_cast<uintptr_t>(handle) ^ uintptr_t{1} << bit);
    }
  }
  for (const uintptr_t value : garbage) {
    SCOPED_TRACE(value);
    auto* handle = reinterpret_cast<void*>(value);
    for (const Call& call : stream_calls()) EXPECT_REFUSED(call.call(handle)) << call.name;
    for (const Call& call : event_calls()) EXPECT_REFUSED(call.call(handle)) << call.name;
    for (const Call& call : context_calls()) EXPECT_REFUSED(call.call(handle)) << call.name;
  }
  EXPECT_TRUE(signal_when_run(stream).within(kPatience)) << "a call with garbage damaged a stream";
  EXPECT_ACL(aclrtRecordEvent(event, stream));
}

TEST_F(HandleTest, StreamOfAnotherContextIsRefused) {
  Stream stream = make_stream();
  aclrtContext primary = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&primary));
  {
    Context other = make_context();
    expect_refused(stream_calls(), stream, ACL_ERROR_RT_STREAM_CONTEXT, "context");
  }
  ASSERT_ACL(aclrtSetCurrentContext(primary));
  EXPECT_TRUE(signal_when_run(stream).within(kPatience));
}

TEST_F(HandleTest, LiveHandlesDiffer) {
  std::vector<Event> events;
  std::set<void*> handles;
  for (int count = 0; count < 500; ++count) {
    events.push_back(make_event());
    handles.insert(events.back());
  }
  EXPECT_EQ(handles.size(), 500u);
}

TEST_F(HandleTest, OneOfSeveralThreadsDestroysAnEvent) {
  for (int round = 0; round < 50; ++round) {
    aclrtEvent event = make_event().release();
    std::atomic<int> successes{0};
    std::vector<std::thread> threads;
    for (int count = 0; count < 3; ++count) threads.emplace_back([&] { successes += aclrtDestroyEvent(event) == ACL_SUCCESS; });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(successes, 1);
  }
}

TEST_F(HandleTest, CallsThatRaceWithDestroySucceedOrAreRefused) {
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::atomic<aclrtStream> shared_stream{make_stream().release()};
  std::atomic<aclrtEvent> shared_event{make_event().release()};
  std::atomic<bool> stop{false};
  const auto is_expected = [](aclError code) { return code == ACL_SUCCESS || code == ACL_ERROR_RT_INVALID_HANDLE; };
  std::vector<std::thread> users;
  for (int count = 0; count < 2; ++count) {
    users.emplace_back([&] {
      EXPECT_ACL(aclrtSetCurrentContext(context));
      while (!stop) {
        for (const aclError code :
             {aclrtRecordEvent(shared_event, shared_stream), aclrtStreamWaitEvent(shared_stream, shared_event),
              aclrtLaunchHostFunc(shared_stream, do_nothing, nullptr), aclrtSynchronizeEvent(shared_event)}) {
          if (!is_expected(code)) ADD_FAILURE() << code_text(code) << " " << recent_error();
        }
      }
    });
  }
  for (int round = 0; round < 100; ++round) {
    aclrtStream old_stream = shared_stream.exchange(make_stream().release());
    aclrtEvent old_event = shared_event.exchange(make_event().release());
    EXPECT_ACL(round % 2 ? aclrtDestroyStream(old_stream) : aclrtDestroyStreamForce(old_stream));
    EXPECT_ACL(aclrtDestroyEvent(old_event));
  }
  stop = true;
  for (std::thread& user : users) user.join();
  EXPECT_ACL(aclrtDestroyStream(shared_stream));
  EXPECT_ACL(aclrtDestroyEvent(shared_event));
}

}  // namespace
}  // namespace softnpu::test
