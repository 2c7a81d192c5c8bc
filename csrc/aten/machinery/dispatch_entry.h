// One entry of an operator's dispatch table. It tells whether the kernel is still the one from the time when the entry was
// constructed. A registration by a user changes the kernel, and the end of the registration changes it back. PyTorch has no
// callback for that.
//
//   const DispatchEntry autograd("aten::exp", "", c10::DispatchKey::AutogradOther);
//   if (!autograd.is_unchanged()) ...   // a user has registered a kernel for the key Autograd of aten::exp
//
// is_unchanged() compares two pointers: it takes no lock, and any thread may call it. As for every call of an operator, no other
// thread may register kernels of that operator meanwhile. Entries live as long as the process.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/DispatchKey.h>

namespace torch_npu {

class DispatchEntry {
 public:
  // Throws c10::Error if there is no such operator, or if it has no kernel for the key.
  DispatchEntry(const char* name, const char* overload, c10::DispatchKey key);

  bool is_unchanged() const { return current_->_equalsBoxedAndUnboxed(*original_); }

 private:
  const c10::KernelFunction* current_;   // in the dispatch table of the operator
  const c10::KernelFunction* original_;  // a copy; never freed, since calls may still come at exit
};

}  // namespace torch_npu
