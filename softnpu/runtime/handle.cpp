#include "runtime/handle.h"

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

}  // namespace softnpu
