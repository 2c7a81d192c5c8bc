#pragma once

#include <c10/util/Exception.h>

namespace torch_npu {

// Thrown if a wait ends before the work does, although nothing failed. Code that was going to free memory keeps it then.
class C10_EXPORT WaitUnfinished : public c10::Error {
 public:
  using c10::Error::Error;
};

}  // namespace torch_npu
