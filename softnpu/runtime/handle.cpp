#include "runtime/handle.h"

#include <sys/auxv.h>

#include <cstring>

namespace softnpu {

const char* name_of(HandleKind kind) {
  switch (kind) {
    case HandleKind::kContext:
      return "context";
    case HandleKind::kStream:
      return "stream";
    case HandleKind::kEvent:
      return "event";
  }
  return "handle of an unknown kind";
}

uint32_t first_generation(uint32_t slot) {
  uint32_t random = 0;
  const void* bytes =
      reinterpret_cast<const void*>(getauxval(AT_RANDOM));  // sixteen bytes from the kernel for each program start
  if (bytes != nullptr) std::memcpy(&random, bytes, sizeof random);
  constexpr uint32_t kGoldenRatio = 0x9E3779B1;  // spreads neighbouring slots
  return (random ^ (slot + 1) * kGoldenRatio) & ~1u;
}

}  // namespace softnpu
