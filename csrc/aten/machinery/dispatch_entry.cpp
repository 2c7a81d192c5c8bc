#include "aten/machinery/dispatch_entry.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace torch_npu {
namespace {
struct DispatchTable;
}
}  // namespace torch_npu

// Only typed handles, which are friends of the dispatcher, can access the table of an operator.
template <>
class c10::TypedOperatorHandle<torch_npu::DispatchTable> {
 public:
  static const KernelFunction* entry(const OperatorHandle& op, DispatchKey key) {
    return &op.operatorDef_->op.lookup(DispatchKeySet(key));
  }
};

namespace torch_npu {

DispatchEntry::DispatchEntry(const char* name, const char* overload, c10::DispatchKey key)
    : current_(
          c10::TypedOperatorHandle<DispatchTable>::entry(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), key)),
      original_(new c10::KernelFunction(*current_)) {}

}  // namespace torch_npu
