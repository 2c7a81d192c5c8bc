#include "runtime/base/handle.h"

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
    case HandleKind::kGraph:
      return "graph";
    case HandleKind::kTaskGroup:
      return "task group";
  }
  return "handle of an unknown kind";
}

uint32_t first_generation(HandleKind kind, uint32_t slot) {
  uint32_t random = 0;
  // The kernel gives sixteen random bytes to each process.
  const auto* bytes = reinterpret_cast<const void*>(getauxval(AT_RANDOM));
  if (bytes != nullptr) std::memcpy(&random, bytes, sizeof random);
  constexpr uint32_t kGoldenRatio = 0x9E3779B1;  // spreads neighbouring numbers
  return (random ^ (slot * 16 + uint32_t(kind)) * kGoldenRatio) & ~1u;
}

}  // namespace softnpu
