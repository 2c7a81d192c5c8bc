// The two phases of a call, and executors that are used again.
#include <thread>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_mm.h"
#include "ops/operands.h"

namespace softnpu::test {
namespace {

class Executors : public OpsFixture {
 protected:
  Stream stream = make_stream();
  Operand a{{4}, {1, 2, 3, 4}};
  Operand b{{4}, {10, 20, 30, 40}};
  Operand out{{4}};
  ScalarObject one = scalar(1);

  aclOpExecutor* prepare_add() { return prepare(aclnnAddGetWorkspaceSize, a, b, one, out); }
};

TEST_F(Executors, DescriptorsMayGoBeforeTheKernelRuns) {
  Gate gate(stream);
  {
    const TensorObject left = describe(a.address(), {4});
    const TensorObject sum = describe(out.address(), {4});
    ASSERT_ACL(CALL(aclnnAdd, stream, left, b, scalar(2), sum));
  }
  gate.open();
  EXPECT_EQ(out.read(stream), (Floats{21, 42, 63, 84}));
}

TEST_F(Executors, PhasesMayRunOnTwoThreads) {
  aclOpExecutor* executor = nullptr;
  std::thread([&] {
    ASSERT_ACL(aclrtSetDevice(0));
    executor = prepare_add();
  }).join();
  ASSERT_ACL(aclnnAdd(nullptr, 0, executor, stream));
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44}));
}

TEST_F(Executors, ExecutorIsUsedOnce) {
  aclOpExecutor* executor = prepare_add();
  ASSERT_ACL(aclnnAdd(nullptr, 0, executor, stream));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnAdd(nullptr, 0, executor, stream));
  EXPECT_RECENT_ERROR("was used already");
}

TEST_F(Executors, ExecutorOfAnotherFunctionIsRefused) {
  aclOpExecutor* executor = prepare_add();
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnMm(nullptr, 0, executor, stream));
  EXPECT_RECENT_ERROR("belongs to another function");
  EXPECT_ACL(aclDestroyAclOpExecutor(executor));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_NULLPTR, aclnnAdd(nullptr, 0, nullptr, stream));
}

TEST_F(Executors, RepeatableExecutorRunsUntilDestroyed) {
  aclOpExecutor* executor = prepare(aclnnInplaceAddGetWorkspaceSize, out, b, one);
  ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor));
  out.write({0, 0, 0, 0});
  for (int i = 0; i < 3; ++i) ASSERT_ACL(aclnnInplaceAdd(nullptr, 0, executor, stream));
  EXPECT_EQ(out.read(stream), (Floats{30, 60, 90, 120}));
  EXPECT_ACL(aclDestroyAclOpExecutor(executor));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(executor));
}

TEST_F(Executors, LaunchKeepsTheAddressesThatItWasGiven) {
  Operand other({4}, {100, 200, 300, 400});
  Operand second({4});
  aclOpExecutor* executor = prepare_add();
  ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor));
  Gate gate(stream);
  ASSERT_ACL(aclnnAdd(nullptr, 0, executor, stream));
  ASSERT_ACL(aclSetInputTensorAddr(executor, 1, b, other.address()));
  ASSERT_ACL(aclSetOutputTensorAddr(executor, 0, out, second.address()));
  ASSERT_ACL(aclnnAdd(nullptr, 0, executor, stream));
  gate.open();
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44})) << "the first launch followed the later address";
  EXPECT_EQ(second.read(stream), (Floats{101, 202, 303, 404}));
  ASSERT_ACL(aclSetTensorAddr(executor, 0, a, other.address()));
  ASSERT_ACL(aclnnAdd(nullptr, 0, executor, stream));
  EXPECT_EQ(second.read(stream), (Floats{200, 400, 600, 800}));
  EXPECT_ACL(aclDestroyAclOpExecutor(executor));
}

TEST_F(Executors, RebindingChecksIndexAndMemory) {
  aclOpExecutor* executor = prepare_add();
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetInputTensorAddr(executor, 0, a, a.address()));
  EXPECT_RECENT_ERROR("not repeatable");
  ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetInputTensorAddr(executor, 2, a, a.address()));
  EXPECT_RECENT_ERROR("has 2 such tensor parameters, not 3");
  const DeviceBuffer small = make_device_buffer(4);
  float on_host[4] = {};
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetInputTensorAddr(executor, 0, a, on_host));
  EXPECT_RECENT_ERROR("'self'");
  EXPECT_ACL(aclDestroyAclOpExecutor(executor));
}

TEST_F(Executors, ElementsOfAListAreRebound) {
  const aclTensor* parts[] = {describe(a.address(), {4}).release(), describe(b.address(), {4}).release()};
  const TensorListObject list(aclCreateTensorList(parts, 2));
  Operand joined({8});
  aclOpExecutor* executor = prepare(aclnnCatGetWorkspaceSize, list, int64_t(0), joined);
  ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor));
  ASSERT_ACL(aclSetDynamicInputTensorAddr(executor, 0, 1, list, a.address()));
  ASSERT_ACL(aclnnCat(nullptr, 0, executor, stream));
  EXPECT_EQ(joined.read(stream), (Floats{1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetDynamicInputTensorAddr(executor, 0, 2, list, a.address()));
  EXPECT_ACL(aclDestroyAclOpExecutor(executor));
}

TEST_F(Executors, BadStreamIsRefusedByPhaseTwo) {
  aclOpExecutor* executor = prepare_add();
  EXPECT_REFUSED(aclnnAdd(nullptr, 0, executor, reinterpret_cast<aclrtStream>(uintptr_t(0x1234560))));
}

TEST_F(Executors, ManyThreadsCallAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      ASSERT_ACL(aclrtSetDevice(0));
      Stream own = make_stream();
      Operand sum({4}, {0, 0, 0, 0});
      for (int call = 0; call < kCalls; ++call) ASSERT_ACL(CALL(aclnnInplaceAdd, own, sum, a, scalar(1)));
      EXPECT_EQ(sum.read(own), (Floats{1 * kCalls, 2 * kCalls, 3 * kCalls, 4 * kCalls}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// In a process of its own, with red zones.
class ChildZones : public Executors {};

TEST_F(ChildZones, AnOperatorBesideDamageFailsWithItsNameOnce) {
  auto* const end =
      reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(out.address()) + static_cast<uintptr_t>(driver()->alias_offset)) +
      4 * sizeof(float);
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  ASSERT_ACL(aclrtSynchronizeStream(stream));
  *end = 0x11;
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  EXPECT_ACL_ERROR(ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, aclrtSynchronizeStream(stream));
  const std::string message = recent_error();
  for (const char* part : {"aclnnAdd(self: float32[4]", "allocation of 16 bytes", "offset 16"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  ASSERT_ACL(CALL(aclnnAdd, stream, a, b, one, out));
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44}));
}

TEST_F(Executors, RedZonesAreCheckedAfterEachOperator) { EXPECT_CHILD_PASSES("ChildZones.*", {"SOFTNPU_MEMORY_CHECK=redzone"}); }

}  // namespace
}  // namespace softnpu::test
