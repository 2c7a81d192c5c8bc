// One entry of an operator's dispatch table, and whether its kernel is still the one that was there when the plugin was loaded.
// Registrations of users change it, and their end changes it back. PyTorch has no listener for that, so a call asks the table.
//
//   const KernelSlot autograd("aten::exp", "", c10::DispatchKey::AutogradOther);
//   if (!autograd.is_unchanged()) ...   // a user has registered a kernel for the key Autograd of aten::exp
//
// is_unchanged() compares two pointers: it takes no lock, and any thread may call it. As for every call of an operator, no other
// thread may register kernels of that operator meanwhile. Slots live as long as the process.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/DispatchKey.h>

namespace torch_npu {

class KernelSlot {
 public:
  // The operator is known to the dispatcher and has a kernel for the key; otherwise c10::Error.
  KernelSlot(const char* name, const char* overload, c10::DispatchKey key);

  bool is_unchanged() const { return slot_->_equalsBoxedAndUnboxed(*own_); }

 private:
  const c10::KernelFunction* slot_;  // in the table of the operator
  const c10::KernelFunction* own_;   // never freed: at exit, calls may still come
};

}  // namespace torch_npu
