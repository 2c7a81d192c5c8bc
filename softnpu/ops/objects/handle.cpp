#include "ops/objects/handle.h"

#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <new>

#include "aclnn/aclnn_base.h"

namespace softnpu::ops::detail {
namespace {

constexpr size_t kReserved = size_t{4} << 30;  // bytes of address space per kind, for millions of objects
constexpr size_t kStep = size_t{256} << 10;    // bytes that become usable at once

// Slots begin at offset `begin` of their first page. The offsets differ, because a load waits for an earlier store to the same
// offset of another page: phase one stores into an executor while it loads from scalars and tensors.
struct KindInfo {
  const char* name;
  size_t begin;
};
constexpr std::array<KindInfo, kObjectKinds> kKinds{{{"aclTensor", 2048},
                                                     {"aclScalar", 1536},
                                                     {"aclIntArray", 3840},
                                                     {"aclFloatArray", 3840},
                                                     {"aclBoolArray", 3840},
                                                     {"aclTensorList", 3840},
                                                     {"aclScalarList", 3840},
                                                     {"aclOpExecutor", 0}}};

const char* name_of(ObjectKind kind) { return kKinds[size_t(kind)].name; }

// Whether the number can be a handle of that kind, live or not.
bool is_handle(uint64_t number, ObjectKind kind) {
  const uint64_t its_kind = number >> kKindShift & 0xFF;
  return its_kind == kFirstKind + uint64_t(kind) && uint32_t(number) < slots[size_t(kind)].count.load(std::memory_order_acquire);
}

}  // namespace

constinit std::array<Slots, kObjectKinds> slots{};

void* add_memory(ObjectKind kind, size_t bytes) {
  Slots& own = slots[size_t(kind)];
  const size_t begin = kKinds[size_t(kind)].begin;
  if (own.first == nullptr) {
    void* reserved = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) throw std::bad_alloc();
#ifdef __SANITIZE_ADDRESS__
    __lsan_register_root_region(reserved, kReserved);  // objects point at memory of the heap
#endif
    own.first = static_cast<std::byte*>(reserved) + begin;
  }
  std::byte* const reserved = own.first - begin;
  const size_t used = begin + own.count.load(std::memory_order_relaxed) * bytes;
  while (used + bytes > own.usable) {
    if (own.usable == kReserved || mprotect(reserved + own.usable, kStep, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    own.usable += kStep;
  }
  return reserved + used;
}

uint64_t first_life(ObjectKind kind, uint32_t slot) {
  // Spreads the generations of neighbouring slots, so that a random number is hardly ever a handle.
  constexpr uint32_t kGoldenRatio = 0x9E3779B1;
  const uint64_t generation = (slot + 1) * kGoldenRatio & ~1u;
  return generation << 40 | (kFirstKind + uint64_t(kind)) << kKindShift | slot;
}

Status explain(ObjectKind kind, const void* handle, std::string_view argument) {
  if (handle == nullptr) return {ACLNN_ERR_PARAM_NULLPTR, text("argument '", argument, "' is null")};
  const uint64_t number = number_of(handle);
  if (is_handle(number, kind)) {
    const bool is_executor = kind == ObjectKind::kExecutor;
    return {ACLNN_ERR_PARAM_INVALID,
            text("argument '", argument, "' is an ", name_of(kind), " that was ", is_executor ? "used or " : "",
                 "destroyed already (", handle, ")", is_executor ? "; phase one makes a new one" : "")};
  }
  for (size_t other = 0; other < kObjectKinds; ++other) {
    if (!is_handle(number, ObjectKind(other))) continue;
    return {ACLNN_ERR_PARAM_INVALID,
            text("argument '", argument, "' is an ", name_of(ObjectKind(other)), ", but an ", name_of(kind), " is needed")};
  }
  return {ACLNN_ERR_PARAM_INVALID,
          text("argument '", argument, "' (", handle, ") is not an ", name_of(kind), " of this operator library")};
}

}  // namespace softnpu::ops::detail
