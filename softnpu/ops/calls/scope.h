// Hides the caller's dispatch state from the device's kernels.
//
//   KernelScope scope;
//   at::cpu::mm_outf(a, b, out);
//
// A launch may run its kernel on the calling thread. Autograd, autocast, functorch, Python modes, profilers and warning handlers
// of that thread must neither see nor change the kernel.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <optional>

namespace softnpu::ops {

class SilentWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

class KernelScope {
 public:
  KernelScope() : keys_(included(), excluded()), warnings_(&silence()) {
    if (at::hasCallbacks()) [[unlikely]]
      record_.emplace();
  }

 private:
  // Kernels need BackendSelect to create tensors.
  static c10::DispatchKeySet included() { return c10::DispatchKeySet(c10::DispatchKey::BackendSelect); }
  static c10::DispatchKeySet excluded() {
    using c10::DispatchKey;
    constexpr c10::DispatchKeySet others(
        {DispatchKey::ADInplaceOrView, DispatchKey::Functionalize, DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
         DispatchKey::PythonDispatcher, DispatchKey::PreDispatch, DispatchKey::FuncTorchBatched,
         DispatchKey::FuncTorchBatchedDecomposition, DispatchKey::FuncTorchVmapMode, DispatchKey::FuncTorchGradWrapper,
         DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode,
         DispatchKey::BatchedNestedTensor, DispatchKey::Batched, DispatchKey::VmapMode, DispatchKey::DeferredInit});
    return c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset | others;
  }
  static SilentWarnings& silence() {
    static auto* const handler = new SilentWarnings;
    return *handler;
  }

  c10::impl::ForceDispatchKeyGuard keys_;
  c10::WarningUtils::WarningHandlerGuard warnings_;
  std::optional<at::DisableRecordFunctionGuard> record_;
};

}  // namespace softnpu::ops
