// Copies and fills: every address a client gives is looked up and every range checked before a byte moves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_rt.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream.h"

namespace softnpu {

// Where a client's address points, and under which address kernels reach it.
struct Place {
  enum class Kind { kDevice, kPinned, kPageable };
  Kind kind = Kind::kPageable;
  int device = -1;  // as this process counts; -1 for host memory
  void* address = nullptr;

  bool is_device() const { return kind == Kind::kDevice; }
};

// ACL_ERROR_RT_PARAM_INVALID unless [pointer, pointer + bytes) lies inside one live device allocation, one pinned or registered
// range, or mapped host memory. `argument` names it in the message.
Result<Place> locate(const void* pointer, size_t bytes, const char* argument);
// The same, but only device memory will do.
Result<Place> locate_device(const void* pointer, size_t bytes, const char* argument);

// A copy of `height` rows of `width` bytes; a plain copy is one row.
struct CopyShape {
  void* destination;
  size_t destination_pitch;
  const void* source;
  size_t source_pitch;
  size_t width;
  size_t height = 1;
};

struct CheckedCopy {
  Place destination;
  Place source;
  CopyShape shape;  // with the addresses that kernels use
};

// Refuses ranges that overlap, too, and a thread without a current context.
Result<CheckedCopy> check_copy(const CopyShape& shape);

// Moves the bytes now; waits for no stream.
Status copy_now(const CheckedCopy& copy);
Status fill_now(const Place& destination, uint8_t value, size_t bytes);

// ACL_ERROR_RT_PARAM_INVALID if `kind` does not say what the addresses say; ACL_ERROR_RT_FEATURE_NOT_SUPPORT for host to host.
Status check_direction(const CheckedCopy& copy, aclrtMemcpyKind kind);

// Moves the bytes in the stream's order. Returns at once if only device and pinned memory take part; where pageable memory does,
// after the copy. With ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE the source may be changed as soon as this returns, whatever it is.
Status copy_in_order(const CheckedCopy& copy, aclrtMemcpyKind kind, Stream& stream);

Status fill_in_order(const Place& destination, uint8_t value, size_t bytes, Stream& stream);

}  // namespace softnpu
