#include "aten/machinery/kernel_slot.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace torch_npu {
namespace {
struct DispatchTable;
}
}  // namespace torch_npu

// The typed handles are friends of the dispatcher; only they see an operator's table.
template <>
class c10::TypedOperatorHandle<torch_npu::DispatchTable> {
 public:
  static const KernelFunction* slot(const OperatorHandle& op, DispatchKey key) {
    return &op.operatorDef_->op.lookup(DispatchKeySet(key));
  }
};

namespace torch_npu {

KernelSlot::KernelSlot(const char* name, const char* overload, c10::DispatchKey key)
    : slot_(c10::TypedOperatorHandle<DispatchTable>::slot(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), key)),
      own_(new c10::KernelFunction(*slot_)) {}

}  // namespace torch_npu
