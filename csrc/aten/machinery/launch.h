// One aclnn call: phase one with descriptors, then the workspace, then phase two on the current stream of the current device.
//
//   constinit Function<const aclTensor*, aclTensor*> relu{"aclnnRelu"};
//   launch(relu, TensorArg(self), OutputArg(out));
//
// launch() returns when the work is queued. If the device refuses the call, it throws with the function, its arguments and the
// device's reason. A failure of the queued work is thrown by the next synchronising call. Thread-safe.
// Hand-written code calls call::aclnnX(...) of the generated plugin/calls.h instead.
#pragma once

#include <atomic>
#include <initializer_list>
#include <string>

#include "aclnn/aclnn_base.h"
#include "aten/machinery/arguments.h"
#include "core/stream/launch_trace.h"
#include "core/stream/stream.h"

namespace torch_npu {

using RunFunction = aclnnStatus (*)(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

// The two entry points of one aclnn function, looked up when first called.
template <class... Parameters>
class Function {
 public:
  using PlanFunction = aclnnStatus (*)(Parameters..., uint64_t* workspace_size, aclOpExecutor** executor);

  constexpr explicit Function(const char* name) : name_(name) {}

  const char* name() const { return name_; }
  PlanFunction plan() {
    const PlanFunction known = plan_.load(std::memory_order_acquire);
    return C10_LIKELY(known != nullptr) ? known : bind();
  }
  // Call plan() first.
  RunFunction run() const { return run_.load(std::memory_order_relaxed); }

 private:
  PlanFunction bind();

  const char* const name_;
  std::atomic<PlanFunction> plan_{nullptr};
  std::atomic<RunFunction> run_{nullptr};
};

namespace detail {

struct EntryPoints {
  void* plan;
  RunFunction run;
};

// Throws NotImplementedError with function and library if the device library lacks it.
EntryPoints find_function(const char* name);

void run_with_workspace(NPUStream stream, const char* name, RunFunction run, uint64_t workspace_size, aclOpExecutor* executor);

inline void run_on(NPUStream stream, const char* name, RunFunction run, uint64_t workspace_size, aclOpExecutor* executor) {
  if (C10_UNLIKELY(workspace_size != 0)) return run_with_workspace(stream, name, run, workspace_size, executor);
  acl::check(static_cast<aclError>(run(nullptr, 0, executor, stream.stream())), name);
}

std::string join(std::initializer_list<std::string> arguments);
[[noreturn]] void refuse(const char* name, aclnnStatus status, std::initializer_list<std::string> arguments);

}  // namespace detail

template <class... Parameters>
auto Function<Parameters...>::bind() -> PlanFunction {
  const detail::EntryPoints found = detail::find_function(name_);
  const auto plan = reinterpret_cast<PlanFunction>(found.plan);
  run_.store(found.run, std::memory_order_relaxed);
  plan_.store(plan, std::memory_order_release);
  return plan;
}

// Inlined, so that all arguments share one look-up of the thread's state.
template <class... Parameters, class... Args>
[[gnu::always_inline]] inline void launch(Function<Parameters...>& function, const Args&... args) {
  static_assert(sizeof...(Parameters) == sizeof...(Args));
  const NPUStream stream = getCurrentNPUStream();
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = function.plan()(args.get()..., &workspace_size, &executor);
  if (C10_UNLIKELY(status != 0)) detail::refuse(function.name(), status, {args.describe()...});
  detail::run_on(stream, function.name(), function.run(), workspace_size, executor);
  after_launch(stream, function.name(), [&] { return detail::join({args.describe()...}); });
}

// After the launch of an operator that may refuse values, such as indices (`checks_values` in softnpu/ops/aclnn.yaml): throws its
// error now if it has failed already. Does not wait; a later failure is thrown by the next synchronising call.
void report_if_over(const char* name);

}  // namespace torch_npu
