#include "device.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench {
namespace {

constexpr size_t kPageBytes = 4096;

[[noreturn]] void give_up(const char* reason) {
  std::fprintf(stderr, "runtime_bench: %s\n", reason);
  std::exit(2);
}

aclError do_nothing(void*, char*) { return ACL_SUCCESS; }

aclError pass_gate(void* payload, char*) {
  (*static_cast<Gate**>(payload))->pass();
  return ACL_SUCCESS;
}

aclError do_small_work(void*, char*) {
  small_work();
  return ACL_SUCCESS;
}

constexpr SoftnpuTaskKind kSmallKind = {
    .name = "small", .run = do_small_work, .release = nullptr, .ready = nullptr, .flags = 0, .visit = nullptr};
constexpr SoftnpuTaskKind kEmptyKind = {
    .name = "empty", .run = do_nothing, .release = nullptr, .ready = nullptr, .flags = 0, .visit = nullptr};
constexpr SoftnpuTaskKind kGateKind = {
    .name = "gate", .run = pass_gate, .release = nullptr, .ready = nullptr, .flags = SOFTNPU_TASK_ON_WORKER, .visit = nullptr};

}  // namespace

void require(aclError code, const char* call) {
  if (code == ACL_SUCCESS) [[likely]]
    return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s returned %d: %s\n", call, code, message != nullptr ? message : "no message");
  std::exit(2);
}

const SoftnpuDriver& driver() {
  static const SoftnpuDriver* const found = [] {
    const auto get = reinterpret_cast<decltype(&softnpuDriver)>(dlsym(RTLD_DEFAULT, "softnpuDriver"));
    if (get == nullptr) give_up("this libascendcl is not softnpu's: it has no softnpuDriver");
    const SoftnpuDriver* driver = get(SOFTNPU_DRIVER_VERSION);
    if (driver == nullptr) give_up("this libascendcl has another version of softnpuDriver");
    return driver;
  }();
  return *found;
}

void small_work() {
  for (int i = 0; i < 700; ++i) asm volatile("");
}

void Stream::launch_small() {
  const Payload payload{};
  REQUIRE_ACL(driver().launch(handle_, &kSmallKind, &payload, sizeof payload, kExpensive));
}

void Stream::launch_empty(uint64_t cost) {
  const Payload payload{};
  REQUIRE_ACL(driver().launch(handle_, &kEmptyKind, &payload, sizeof payload, cost));
}

void Stream::hold(Gate& gate) {
  Gate* payload = &gate;
  REQUIRE_ACL(driver().launch(handle_, &kGateKind, &payload, sizeof payload, kExpensive));
  gate.await_reached();
}

Memory::Memory(MemoryKind kind, size_t bytes) : kind_(kind) {
  if (kind == MemoryKind::kDevice) {
    REQUIRE_ACL(aclrtMalloc(&address_, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    REQUIRE_ACL(aclrtMemset(address_, bytes, 1, bytes));
    return;
  }
  if (kind == MemoryKind::kPinned) {
    REQUIRE_ACL(aclrtMallocHost(&address_, bytes));
  } else {
    address_ = std::aligned_alloc(kPageBytes, bytes);
    if (address_ == nullptr) give_up("no host memory");
  }
  std::memset(address_, 1, bytes);
}

Memory::~Memory() {
  switch (kind_) {
    case MemoryKind::kDevice:
      REQUIRE_ACL(aclrtFree(address_));
      break;
    case MemoryKind::kPinned:
      REQUIRE_ACL(aclrtFreeHost(address_));
      break;
    case MemoryKind::kPageable:
      std::free(address_);
      break;
  }
}

}  // namespace bench
