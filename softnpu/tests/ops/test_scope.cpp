// The dispatch state of the caller does not reach a kernel that runs in the launching call, and the caller does not see the
// kernel.
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>

#include <thread>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_roll.h"
#include "ops/operands.h"

namespace softnpu::test {
namespace {

class Scope : public OpsFixture {
 protected:
  Stream stream = make_stream();
  Operand a{{2, 2}, {1.001f, 2, 3, 4}};
  Operand unit{{2, 2}, {1, 0, 0, 1}};
  Operand out{{2, 2}};
};

TEST_F(Scope, AutocastDoesNotReachTheKernel) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  ASSERT_ACL(CALL(aclnnMm, stream, a, unit, out, int8_t(0)));
  ASSERT_ACL(CALL(aclnnRoll, stream, out, int_array({0}), int_array({0}), out));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(out.read(stream)[0], 1.001f) << "the result was rounded to bfloat16";
}

TEST_F(Scope, FirstCallInInferenceModeDoesNotAffectLaterCalls) {
  std::thread([this] {  // a thread without alias tensors
    ASSERT_ACL(aclrtSetDevice(0));
    {
      const c10::InferenceMode on;
      ASSERT_ACL(CALL(aclnnRoll, stream, a, int_array({1}), int_array({0}), out));
    }
    ASSERT_ACL(CALL(aclnnRoll, stream, a, int_array({1}), int_array({0}), out));
  })
      .join();
  EXPECT_EQ(out.read(stream), (Floats{3, 4, 1.001f, 2}));
}

TEST_F(Scope, ProfilerDoesNotSeeTheKernel) {
  static int seen = 0;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        ++seen;
        return nullptr;
      },
      nullptr));
  ASSERT_ACL(CALL(aclnnRoll, stream, a, int_array({1}), int_array({0}), out));
  at::removeCallback(handle);
  EXPECT_EQ(seen, 0);
  EXPECT_ACL(aclrtSynchronizeStream(stream));
}

}  // namespace
}  // namespace softnpu::test
