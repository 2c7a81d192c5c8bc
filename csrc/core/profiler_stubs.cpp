// Device times for torch's profilers, which record an event before and after each operator. This file has no header: it registers
// the stubs with torch.
//
//   with torch.autograd.profiler.profile(use_device="npu") as recorded: ...
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "core/device/device.h"
#include "core/guard.h"
#include "core/stream/all_work.h"
#include "core/stream/event.h"

namespace torch_npu {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const NPUStream stream = getCurrentNPUStream();
    if (device != nullptr) *device = stream.device_index();
    std::shared_ptr<PooledEvent> mark(take_event(stream.device_index(), Timing::kOn), return_event);
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
    record_event(*mark, stream);
    *event = std::move(mark);
  }

  float elapsed(const ProfilerVoidEventStub* start, const ProfilerVoidEventStub* end) const override {
    constexpr double kMicrosecondsPerMillisecond = 1000;
    const auto& last = *static_cast<const PooledEvent*>(end->get());
    synchronize_event(last);
    return static_cast<float>(elapsed_ms(*static_cast<const PooledEvent*>(start->get()), last) * kMicrosecondsPerMillisecond);
  }

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> visit) const override {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      if (!has_context(device)) continue;
      const c10::DeviceGuard guard(npu_device(device));
      visit(device);
    }
  }

  void synchronize() const override { synchronize_device(current_device()); }

  // For tools that trace a process. The device has none.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
};

Stubs stubs;
[[maybe_unused]] const bool stubs_registered = (torch::profiler::impl::registerPrivateUse1Methods(&stubs), true);

}  // namespace
}  // namespace torch_npu
