// Functions that fail on purpose, for the tests of the fuzzer. Names, headers and parameters are those of real functions.
#include <unistd.h>

#include <csignal>

#include "aclnnop/aclnn_abs.h"
#include "ops/fuzz/table.h"
#include "runtime/driver.h"

namespace softnpu::fuzz {
namespace {

// The address of the first tensor of the call.
void* g_address = nullptr;

// Phase one for tensors that aclnnAbs accepts. Its executor computes the absolute value in phase two.
aclnnStatus take(const Value* values, uint64_t* size, aclOpExecutor** executor) {
  aclTensor* const self = values[0].tensor;
  aclTensor* const out = values[1].tensor;
  const aclnnStatus status = aclnnAbsGetWorkspaceSize(self, self, size, executor);
  if (status != ACLNN_SUCCESS) return status;
  aclDestroyAclOpExecutor(*executor);
  aclGetRawTensorAddr(self, &g_address);
  if (g_address == nullptr) return ACLNN_ERR_PARAM_NULLPTR;
  return aclnnAbsGetWorkspaceSize(out, out, size, executor);
}

aclnnStatus refuse(const Value*, uint64_t*, aclOpExecutor**) { return ACLNN_ERR_PARAM_INVALID; }

aclnnStatus crash_early(const Value* values, uint64_t* size, aclOpExecutor** executor) {
  const aclnnStatus status = take(values, size, executor);
  if (status == ACLNN_SUCCESS) raise(SIGFPE);
  return status;
}

template <void (*kBody)()>
aclnnStatus second(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream) {
  kBody();
  return aclnnAbs(workspace, size, executor, stream);
}

aclnnStatus fail_late(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream) {
  aclnnAbs(workspace, size, executor, stream);
  return ACLNN_ERR_INNER;
}

// The address of the first tensor for kernels.
volatile uint8_t* kernel_view() { return static_cast<uint8_t*>(g_address) + softnpuDriver(SOFTNPU_DRIVER_VERSION)->alias_offset; }

void nothing() {}
void crash() { raise(SIGSEGV); }
void hang() {
  while (true) pause();
}
void crash_at_third_call() {
  static int calls = 0;
  if (++calls == 3) raise(SIGSEGV);
}
void change_byte(int64_t offset) { kernel_view()[offset] = static_cast<uint8_t>(kernel_view()[offset] ^ 1); }
void change_input() { change_byte(0); }
void damage_zone() { change_byte(-1); }
void leave_pages() { static_cast<void>(kernel_view()[1 << 16]); }

constexpr Parameter kSelf[] = {{.name = "self", .kind = Kind::kTensor}, {.name = "out", .kind = Kind::kTensor, .written = true}};

constexpr Function kFunctions[] = {
    {"aclnnAbs", "aclnnop/aclnn_abs.h", kSelf, take, second<nothing>, false},
    {"aclnnNeg", "aclnnop/aclnn_neg.h", kSelf, refuse, second<nothing>, false},
    {"aclnnErf", "aclnnop/aclnn_erf.h", kSelf, take, fail_late, false},
    {"aclnnSin", "aclnnop/aclnn_sin.h", kSelf, take, second<crash>, false},
    {"aclnnCeil", "aclnnop/aclnn_ceil.h", kSelf, take, second<crash_at_third_call>, false},
    {"aclnnTan", "aclnnop/aclnn_tan.h", kSelf, crash_early, second<nothing>, false},
    {"aclnnFloor", "aclnnop/aclnn_floor.h", kSelf, take, second<hang>, false},
    {"aclnnExp", "aclnnop/aclnn_exp.h", kSelf, take, second<change_input>, false},
    {"aclnnLog", "aclnnop/aclnn_log.h", kSelf, take, second<damage_zone>, false},
    {"aclnnSqrt", "aclnnop/aclnn_sqrt.h", kSelf, take, second<leave_pages>, false},
};

// The second one is refused.
constexpr const char* kExamples[] = {
    "aclnnAbs(self=ACL_FLOAT[3, 5] small 1, out=ACL_FLOAT[3, 5] zeros)",
    "aclnnNeg(self=ACL_FLOAT[3, 5] small 1, out=ACL_FLOAT[3, 5] zeros)",
};

}  // namespace

std::span<const Function> functions() { return kFunctions; }
std::span<const char* const> examples() { return kExamples; }

}  // namespace softnpu::fuzz
