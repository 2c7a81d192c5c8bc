// Every function of include/functions.yaml with wrong arguments. bad_arguments.inc is generated from that table.
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>

#include "testing/acl_fixture.h"

namespace softnpu::test {
namespace {

class BadArgumentsTest : public AclFixture {};

// Memory for everything that a call may write through a pointer.
struct Scratch {
  alignas(64) unsigned char bytes[16384] = {};
  void clear() { std::memset(bytes, 0, sizeof bytes); }
};

void expect_null_refused(const char* function, const char* argument, aclError code) {
  const std::string message = recent_error();
  EXPECT_EQ(code, ACL_ERROR_INVALID_PARAM) << function << " with a null " << argument << " gives " << code_text(code);
  EXPECT_NE(message.find(function), std::string::npos) << function << ": " << message;
  EXPECT_NE(message.find("'" + std::string(argument) + "'"), std::string::npos) << argument << " is not named: " << message;
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_INVALID_PARAM) << function;
}

TEST_F(BadArgumentsTest, NullIsRefusedWithTheNameOfTheArgument) {
  Scratch scratch;
  void* buffer = scratch.bytes;
  Stream valid_stream = make_stream();
  Event valid_event = make_event();
  aclrtContext valid_context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&valid_context));
  aclmdlRI valid_graphslot = nullptr;
  ASSERT_ACL(aclmdlRICaptureBegin(valid_stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  ASSERT_ACL(aclmdlRICaptureEnd(valid_stream, &valid_graphslot));
  const Owned<aclmdlRIDestroy> graph(valid_graphslot);
  int calls = 0;
#define ACL_NULL_CALL(function, argument, call)      \
  scratch.clear();                                   \
  expect_null_refused(#function, #argument, (call)); \
  ++calls;
#include "bad_arguments.inc"
  EXPECT_GT(calls, 100);
  EXPECT_TRUE(signal_when_run(valid_stream).within(kPatience));
}

void expect_unsupported(const char* function, aclError code) {
  EXPECT_EQ(code, ACL_ERROR_RT_FEATURE_NOT_SUPPORT) << function << " gives " << code_text(code);
  EXPECT_RECENT_ERROR(function);
}

TEST_F(BadArgumentsTest, UnsupportedFunctionsReturnFeatureNotSupport) {
  Scratch scratch;
  void* buffer = scratch.bytes;
  int calls = 0;
#define ACL_REFUSED_CALL(function, call) \
  scratch.clear();                       \
  expect_unsupported(#function, (call)); \
  ++calls;
#include "bad_arguments.inc"
  EXPECT_GT(calls, 0);
}

// A function that takes a handle must refuse garbage. Others may succeed, but every failure needs a message.
void expect_answered(const char* call, aclError code) {
  const std::string message = recent_error();
  const bool takes_handle = std::strstr(call, "garbage") != nullptr;
  const bool failed_itself = code != ACL_SUCCESS && std::strstr(call, "LastError") == nullptr;
  EXPECT_TRUE(code != ACL_SUCCESS || !takes_handle) << call << "\n  accepted a wrong handle";
  EXPECT_TRUE(!failed_itself || !message.empty()) << call << "\n  failed without a message: " << code_text(code);
}

void call_everything(int64_t number, uintptr_t garbage, uintptr_t stray) {
  Scratch scratch;
  void* buffer = scratch.bytes;
  const auto prepare = [&] {
    scratch.clear();
    static_cast<void>(aclrtSetDevice(0));  // an earlier call may have reset it
    recent_error();
  };
#define ACL_ANY_CALL(function, call) \
  prepare();                         \
  expect_answered(#call, (call));
#include "bad_arguments.inc"
}

constexpr int64_t kNumbers[] = {0, 1, 99, -1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
constexpr uintptr_t kGarbage[] = {1, 0xdeadbeef, 0xA5C2000001000000, 0xA5C3000001FFFFFF, ~uintptr_t{0}};
constexpr uintptr_t kStray[] = {8, 0x1000, 0xdead000000000000, ~uintptr_t{0} - 63};

void call_everything_in_every_way() {
  for (const int64_t number : kNumbers) {
    for (const uintptr_t garbage : kGarbage) {
      SCOPED_TRACE("number " + std::to_string(number) + ", garbage " + std::to_string(garbage));
      call_everything(number, garbage, kStray[garbage % std::size(kStray)]);
    }
  }
}

class ChildGarbage : public ::testing::Test {};

TEST_F(ChildGarbage, WhileInitialised) {
  ASSERT_ACL(aclInit(nullptr));
  call_everything_in_every_way();
  ASSERT_ACL(aclrtSetDevice(0));
  aclrtContext context = nullptr;
  ASSERT_ACL(aclrtGetCurrentContext(&context));
  std::thread([&] {
    EXPECT_ACL(aclrtSetCurrentContext(context));
    Stream stream = make_stream();
    EXPECT_TRUE(signal_when_run(stream).within(kPatience)) << "the device cannot be used any more";
  }).join();
}

TEST_F(ChildGarbage, BeforeInit) { call_everything_in_every_way(); }

TEST_F(ChildGarbage, AfterFinalize) {
  ASSERT_ACL(aclInit(nullptr));
  ASSERT_ACL(aclrtSetDevice(0));
  ASSERT_ACL(aclFinalize());
  call_everything_in_every_way();
}

TEST_F(ChildGarbage, WithoutADevice) {
  ASSERT_ACL(aclInit(nullptr));
  call_everything_in_every_way();
}

TEST_F(BadArgumentsTest, GarbageIsRefusedAndTheProcessContinues) { EXPECT_CHILD_PASSES("ChildGarbage.WhileInitialised"); }
TEST_F(BadArgumentsTest, GarbageBeforeInitIsRefused) { EXPECT_CHILD_PASSES("ChildGarbage.BeforeInit"); }
TEST_F(BadArgumentsTest, GarbageAfterFinalizeIsRefused) { EXPECT_CHILD_PASSES("ChildGarbage.AfterFinalize"); }
TEST_F(BadArgumentsTest, GarbageWithoutDevicesIsRefused) {
  REQUIRE_SOFTNPU();
  EXPECT_CHILD_PASSES("ChildGarbage.WithoutADevice", {"ASCEND_RT_VISIBLE_DEVICES="});
}

}  // namespace
}  // namespace softnpu::test
