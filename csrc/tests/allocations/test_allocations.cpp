// After warm-up the plugin allocates no host memory on the thread that calls an operator. torch allocates a TensorImpl and a
// StorageImpl for each result, and a version counter outside of inference mode. Replacements of malloc and its relatives count.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sub.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <functional>

#include "core/device/device.h"
#include "core/stream/all_work.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

thread_local constinit int64_t allocations = 0;

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

namespace torch_npu {
namespace {

constexpr int kTorchsOwn = 2;

struct Operator {
  const char* name;
  int results;
  std::function<void(const at::Tensor& a, const at::Tensor& b)> call;
};

class Allocations : public testing::TestWithParam<Operator> {};

TEST_P(Allocations, AreOnlyThoseOfTorchAfterWarmUp) {
  const c10::InferenceMode on;
  const Operator& op = GetParam();
  for (const int64_t size : {2, 64, 512}) {  // small ones run in the launching call, large ones are queued
    const at::Tensor a = at::ones({size, size}, at::TensorOptions(kDeviceType)), b = at::ones({size, size}, a.options());
    for (int i = 0; i < 2000; ++i) op.call(a, b);  // more than the queue of a stream holds
    synchronize_device(0);
    constexpr int kCalls = 100;
    const int64_t before = allocations;
    for (int i = 0; i < kCalls; ++i) op.call(a, b);
    EXPECT_EQ(allocations - before, int64_t{kCalls} * op.results * kTorchsOwn) << "of size " << size;
    synchronize_device(0);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, Allocations,
                         testing::Values(Operator{"empty", 1,
                                                  [](auto& a, auto&) {
                                                    at::empty({64, 64}, a.options());
                                                  }},
                                         Operator{"add", 1, [](auto& a, auto& b) { at::add(a, b); }},
                                         Operator{"sub", 1, [](auto& a, auto& b) { at::sub(a, b); }},
                                         Operator{"mul", 1, [](auto& a, auto& b) { at::mul(a, b); }},
                                         Operator{"div", 1, [](auto& a, auto& b) { at::div(a, b); }},
                                         Operator{"relu", 1, [](auto& a, auto&) { at::relu(a); }},
                                         Operator{"neg", 1, [](auto& a, auto&) { at::neg(a); }},
                                         Operator{"lt", 1, [](auto& a, auto& b) { at::lt(a, b); }},
                                         Operator{"add_", 0, [](auto& a, auto& b) { a.add_(b); }},
                                         Operator{"clone", 1, [](auto& a, auto&) { a.clone(); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace torch_npu
