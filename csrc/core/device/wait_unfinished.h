#pragma once

#include <c10/util/Exception.h>

namespace torch_npu {

// The wait ended before the work, and nothing failed. Code that waits before it gives memory back keeps the memory then.
class C10_EXPORT WaitUnfinished : public c10::Error {
 public:
  using c10::Error::Error;
};

}  // namespace torch_npu
