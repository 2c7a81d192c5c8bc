// The two phases of a call, repeatable executors, and executors and tensors that are destroyed before they are used.
#include <unistd.h>

#include <array>
#include <thread>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_nonzero.h"
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

TEST_F(Executors, ArgumentsMayBeDestroyedBeforeTheKernelRuns) {
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

constexpr auto kUsed = "argument 'executor' is an aclOpExecutor that was used or destroyed already";

TEST_F(Executors, ExecutorIsUsedOnce) {
  out.write({0, 0, 0, 0});
  aclOpExecutor* executor = prepare(aclnnInplaceAddGetWorkspaceSize, out, b, one);
  ASSERT_ACL(aclnnInplaceAdd(nullptr, 0, executor, stream));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnInplaceAdd(nullptr, 0, executor, stream));
  EXPECT_RECENT_ERROR(kUsed);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetAclOpExecutorRepeatable(executor));
  EXPECT_RECENT_ERROR(kUsed);
  EXPECT_EQ(out.read(stream), (Floats{10, 20, 30, 40}));
}

TEST_F(Executors, QueuedExecutorIsUsedOnce) {
  out.write({0, 0, 0, 0});
  Gate gate(stream);
  aclOpExecutor* executor = prepare(aclnnInplaceAddGetWorkspaceSize, out, b, one);
  ASSERT_ACL(aclnnInplaceAdd(nullptr, 0, executor, stream));
  for (int i = 0; i < 3; ++i) {
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnInplaceAdd(nullptr, 0, executor, stream));
    EXPECT_RECENT_ERROR(kUsed);
  }
  gate.open();
  EXPECT_EQ(out.read(stream), (Floats{10, 20, 30, 40}));
}

// The launched task owns the executor.
TEST_F(Executors, DestroyingALaunchedExecutorIsRefused) {
  aclOpExecutor* inline_executor = prepare_add();
  ASSERT_ACL(aclnnAdd(nullptr, 0, inline_executor, stream));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(inline_executor));
  EXPECT_RECENT_ERROR(kUsed);
  Operand second({4});
  {
    Gate gate(stream);
    aclOpExecutor* queued = prepare(aclnnAddGetWorkspaceSize, a, b, one, second);
    ASSERT_ACL(aclnnAdd(nullptr, 0, queued, stream));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(queued));
    EXPECT_RECENT_ERROR(kUsed);
    // Would get the slot of the queued executor.
    aclOpExecutor* other = prepare(aclnnAddGetWorkspaceSize, b, b, one, out);
    EXPECT_ACL(aclDestroyAclOpExecutor(other));
  }
  EXPECT_EQ(second.read(stream), (Floats{11, 22, 33, 44}));
}

TEST_F(Executors, DestroyedExecutorIsRefused) {
  aclOpExecutor* gone = prepare_add();
  EXPECT_ACL(aclDestroyAclOpExecutor(gone));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(gone));
  EXPECT_RECENT_ERROR(kUsed);
  out.write({0, 0, 0, 0});
  aclOpExecutor* next = prepare_add();
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnAdd(nullptr, 0, gone, stream));
  EXPECT_RECENT_ERROR(kUsed);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetAclOpExecutorRepeatable(gone));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(gone));
  EXPECT_EQ(out.read(stream), (Floats{0, 0, 0, 0})) << "the next executor was launched";
  EXPECT_ACL(aclnnAdd(nullptr, 0, next, stream)) << "the next executor was destroyed";
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44}));
}

TEST_F(Executors, GarbageIsRefused) {
  alignas(64) static char bytes[4096] = {};
  for (void* pointer : {static_cast<void*>(bytes), static_cast<void*>(bytes + 1), reinterpret_cast<void*>(~uintptr_t(0))}) {
    auto* const executor = static_cast<aclOpExecutor*>(pointer);
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnAdd(nullptr, 0, executor, stream));
    EXPECT_RECENT_ERROR("is not an aclOpExecutor of this operator library");
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(executor));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetAclOpExecutorRepeatable(executor));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetInputTensorAddr(executor, 0, a, a.address()));
  }
  void* const tensor = static_cast<aclTensor*>(a);
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnAdd(nullptr, 0, static_cast<aclOpExecutor*>(tensor), stream));
  EXPECT_RECENT_ERROR("argument 'executor' is an aclTensor, but an aclOpExecutor is needed");
}

TEST_F(Executors, OneOfTwoThreadsLaunchesAnExecutor) {
  constexpr int kRounds = 100;
  const std::array<Stream, 2> streams{make_stream(), make_stream()};
  for (int round = 0; round < kRounds; ++round) {
    out.write({0, 0, 0, 0});
    aclOpExecutor* executor = prepare(aclnnInplaceAddGetWorkspaceSize, out, b, one);
    std::array<aclnnStatus, 2> codes{};
    {
      const std::array<Gate, 2> gates{Gate(streams[0]), Gate(streams[1])};
      run_at_once([&](int thread) {
        ASSERT_ACL(aclrtSetDevice(0));
        codes[size_t(thread)] = aclnnInplaceAdd(nullptr, 0, executor, streams[size_t(thread)]);
      });
    }
    ASSERT_EQ(codes[0] + codes[1], ACLNN_ERR_PARAM_INVALID);
    ASSERT_ACL(aclrtSynchronizeStream(streams[0]));
    ASSERT_EQ(out.read(streams[1]), (Floats{10, 20, 30, 40}));
  }
}

TEST_F(Executors, ExecutorIsEitherLaunchedOrDestroyed) {
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    out.write({0, 0, 0, 0});
    aclOpExecutor* executor = prepare_add();
    aclnnStatus launched = ACLNN_SUCCESS;
    aclnnStatus destroyed = ACLNN_SUCCESS;
    {
      const Gate gate(stream);
      run_at_once([&](int thread) {
        ASSERT_ACL(aclrtSetDevice(0));
        if (thread == 0) launched = aclnnAdd(nullptr, 0, executor, stream);
        if (thread == 1) destroyed = aclDestroyAclOpExecutor(executor);
      });
    }
    ASSERT_EQ(launched + destroyed, ACLNN_ERR_PARAM_INVALID);
    ASSERT_EQ(out.read(stream), (launched == ACLNN_SUCCESS ? Floats{11, 22, 33, 44} : Floats{0, 0, 0, 0}));
  }
}

TEST_F(Executors, ExecutorOfAnotherFunctionIsRefused) {
  aclOpExecutor* executor = prepare_add();
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnMm(nullptr, 0, executor, stream));
  EXPECT_RECENT_ERROR("belongs to another function");
  EXPECT_ACL(aclnnAdd(nullptr, 0, executor, stream)) << "the refusal used the executor up";
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44}));
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

TEST_F(Executors, RepeatableExecutorMayBeDestroyedWhileLaunchesAreQueued) {
  out.write({0, 0, 0, 0});
  {
    Gate gate(stream);
    aclOpExecutor* executor = prepare(aclnnInplaceAddGetWorkspaceSize, out, b, one);
    ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor));
    ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor)) << "the second call was refused";
    for (int i = 0; i < 3; ++i) ASSERT_ACL(aclnnInplaceAdd(nullptr, 0, executor, stream));
    EXPECT_ACL(aclDestroyAclOpExecutor(executor));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(executor));
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnInplaceAdd(nullptr, 0, executor, stream));
    EXPECT_RECENT_ERROR(kUsed);
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetInputTensorAddr(executor, 0, b, a.address()));
    EXPECT_RECENT_ERROR(kUsed);
  }
  EXPECT_EQ(out.read(stream), (Floats{30, 60, 90, 120}));
}

TEST_F(Executors, RepeatableExecutorOfAnotherFunctionIsRefused) {
  aclOpExecutor* executor = prepare_add();
  ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnMm(nullptr, 0, executor, stream));
  EXPECT_RECENT_ERROR("belongs to another function");
  EXPECT_ACL(aclDestroyAclOpExecutor(executor));
}

TEST_F(Executors, ThreadsShareARepeatableExecutorUntilOneDestroysIt) {
  constexpr int kRounds = 100;
  constexpr int kLaunches = 5;
  constexpr int kParts = 300;  // so that a launch takes long to copy them
  std::vector<const aclTensor*> parts;
  for (int i = 0; i < kParts; ++i) parts.push_back(describe(a.address(), {4}).release());
  const TensorListObject list(aclCreateTensorList(parts.data(), parts.size()));
  const Operand joined({4 * kParts});
  for (int round = 0; round < kRounds; ++round) {
    aclOpExecutor* executor = prepare(aclnnCatGetWorkspaceSize, list, int64_t(0), joined);
    ASSERT_ACL(aclSetAclOpExecutorRepeatable(executor));
    std::array<int, 2> launches{};
    std::array<aclnnStatus, 2> destroyed{};
    run_at_once([&](int thread) {
      ASSERT_ACL(aclrtSetDevice(0));
      for (int i = 0; i < kLaunches; ++i) {
        (void)aclSetDynamicInputTensorAddr(executor, 0, 0, nullptr, i % 2 == 0 ? b.address() : a.address());
        launches[size_t(thread)] += aclnnCat(nullptr, 0, executor, stream) == ACLNN_SUCCESS;
      }
      destroyed[size_t(thread)] = aclDestroyAclOpExecutor(executor);
    });
    ASSERT_EQ(destroyed[0] + destroyed[1], ACLNN_ERR_PARAM_INVALID);
    ASSERT_EQ(std::max(launches[0], launches[1]), kLaunches);
    ASSERT_ACL(aclrtSynchronizeStream(stream));
  }
}

TEST_F(Executors, LaunchUsesTheAddressesAtTheTimeOfTheCall) {
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
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44})) << "the first launch used the later address";
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

TEST_F(Executors, ElementsOfAListCanBeRebound) {
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

TEST_F(Executors, RebindingChecksTensorsAndLists) {
  aclOpExecutor* add = prepare_add();
  ASSERT_ACL(aclSetAclOpExecutorRepeatable(add));
  aclTensor* const gone = describe(a.address(), {4}).release();
  EXPECT_ACL(aclDestroyTensor(gone));
  for (auto* set : {aclSetInputTensorAddr, aclSetOutputTensorAddr, aclSetTensorAddr}) {
    EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, set(add, 0, gone, b.address()));
    EXPECT_RECENT_ERROR("argument 'tensor' is an aclTensor that was destroyed already");
  }
  ASSERT_ACL(aclnnAdd(nullptr, 0, add, stream));
  EXPECT_EQ(out.read(stream), (Floats{11, 22, 33, 44})) << "a refusal changed the executor";
  EXPECT_ACL(aclDestroyAclOpExecutor(add));

  const aclTensor* parts[] = {describe(a.address(), {4}).release(), describe(b.address(), {4}).release()};
  aclTensorList* const list = aclCreateTensorList(parts, 2);
  Operand joined({8});
  aclOpExecutor* cat = prepare(aclnnCatGetWorkspaceSize, list, int64_t(0), joined);
  ASSERT_ACL(aclSetAclOpExecutorRepeatable(cat));
  EXPECT_ACL(aclDestroyTensor(parts[1]));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetDynamicInputTensorAddr(cat, 0, 1, list, a.address()));
  EXPECT_RECENT_ERROR("argument 'tensors[1]' is an aclTensor that was destroyed already");
  EXPECT_REFUSED(aclDestroyTensorList(list));
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclSetDynamicTensorAddr(cat, 0, 0, list, a.address()));
  EXPECT_RECENT_ERROR("argument 'tensors' is an aclTensorList that was destroyed already");
  EXPECT_ACL(aclDestroyAclOpExecutor(cat));
}

// A function that sets the shape of its output.
class SyncFunctions : public Executors {
 protected:
  Operand numbers{{4}, {1, 0, 1, 0}};
  DeviceBuffer memory = make_device_buffer(256);
  aclTensor* places = describe(memory, {4, 1}, ACL_INT64).release();

  static Sizes shape_of(const aclTensor* tensor) {
    int64_t* values = nullptr;
    uint64_t count = 0;
    EXPECT_ACL(aclGetViewShape(tensor, &values, &count));
    const std::unique_ptr<int64_t[]> owner(values);
    return {values, values + count};
  }
};

TEST_F(SyncFunctions, OutputGetsItsShapeThoughTheInputWasDestroyed) {
  aclOpExecutor* executor = nullptr;
  {
    const TensorObject input = describe(numbers.address(), {4});
    executor = prepare(aclnnNonzeroGetWorkspaceSize, input, places);
  }
  const TensorObject other = describe(numbers.address(), {7, 3});
  EXPECT_ACL(aclnnNonzero(nullptr, 0, executor, stream));
  EXPECT_EQ(shape_of(places), (Sizes{2, 1}));
  EXPECT_EQ(shape_of(other), (Sizes{7, 3}));
  EXPECT_ACL(aclDestroyTensor(places));
}

TEST_F(SyncFunctions, DestroyedOutputIsRefused) {
  aclOpExecutor* executor = prepare(aclnnNonzeroGetWorkspaceSize, numbers, places);
  EXPECT_ACL(aclDestroyTensor(places));
  const TensorObject other = describe(numbers.address(), {7, 3});
  EXPECT_ACL_ERROR(ACLNN_ERR_PARAM_INVALID, aclnnNonzero(nullptr, 0, executor, stream));
  EXPECT_RECENT_ERROR("aclnnNonzero: argument 'out' is an aclTensor that was destroyed already");
  EXPECT_EQ(shape_of(other), (Sizes{7, 3})) << "another tensor got the shape of the result";
}

TEST_F(SyncFunctions, OutputDestroyedWhileTheKernelWaitsIsRefused) {
  Gate gate(stream);
  aclOpExecutor* executor = prepare(aclnnNonzeroGetWorkspaceSize, numbers, places);
  aclnnStatus code = ACLNN_SUCCESS;
  std::string message;
  std::atomic<int> waiter{0};
  std::thread caller([&] {
    ASSERT_ACL(aclrtSetDevice(0));
    waiter = gettid();
    code = aclnnNonzero(nullptr, 0, executor, stream);
    message = recent_error();
  });
  EXPECT_TRUE(eventually([&] { return falls_asleep(waiter); }));
  EXPECT_ACL(aclDestroyTensor(places));
  const TensorObject other = describe(numbers.address(), {7, 3});
  gate.open();
  caller.join();
  EXPECT_EQ(code, ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(message.find("argument 'out' is an aclTensor that was destroyed already"), std::string::npos) << message;
  EXPECT_EQ(shape_of(other), (Sizes{7, 3}));
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

// In a child process with red zones.
class ChildZones : public Executors {};

TEST_F(ChildZones, OperatorNextToADamagedZoneFailsOnceWithItsName) {
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
