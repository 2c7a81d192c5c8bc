// Copies and fills. Every address of the client is looked up and every range is checked before a byte is copied.
//
//   Result<CheckedCopy> copy = check_copy(shape);
//   if (!copy.ok()) return copy.take_status();
//   return copy_in_order(copy.value(), kind, stream);
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_rt.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream.h"

namespace softnpu {

// The memory at an address of the client, and its kernel address.
struct Place {
  enum class Kind { kDevice, kPinned, kPageable };
  Kind kind = Kind::kPageable;
  int device = -1;  // as this process counts; -1 for host memory
  void* address = nullptr;

  bool is_device() const { return kind == Kind::kDevice; }
};

// ACL_ERROR_RT_PARAM_INVALID unless [pointer, pointer + bytes) lies inside one live device allocation, one pinned or registered
// range, or mapped host memory. `argument` is the name of the argument in the message.
Result<Place> locate(const void* pointer, size_t bytes, const char* argument);
// The same, but only device memory is accepted.
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
  CopyShape shape;  // with kernel addresses
};

// Also refuses overlapping ranges, and a thread without a current context.
Result<CheckedCopy> check_copy(const CopyShape& shape);

// Copies before it returns; does not wait for streams.
Status copy_now(const CheckedCopy& copy);
Status fill_now(const Place& destination, uint8_t value, size_t bytes);

// ACL_ERROR_RT_PARAM_INVALID if `kind` contradicts the addresses; ACL_ERROR_RT_FEATURE_NOT_SUPPORT for host to host.
Status check_direction(const CheckedCopy& copy, aclrtMemcpyKind kind);

// Copies in the stream's order. Returns at once if source and destination are device or pinned memory, and after the copy if one
// of them is pageable. With ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE the caller may always change the source after the return.
Status copy_in_order(const CheckedCopy& copy, aclrtMemcpyKind kind, Stream& stream);

Status fill_in_order(const Place& destination, uint8_t value, size_t bytes, Stream& stream);

}  // namespace softnpu
