// Times of the steps of DistributedDataParallel, which its logger reports: Module._get_ddp_logging_data().
#include <array>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "core/stream/event.h"

namespace torch_npu::distributed {
namespace {

struct ReturnEvent {
  void operator()(PooledEvent* event) const noexcept { return_event(event); }
};

// Events of the current stream. measureDifference() waits for the second one.
class DdpTimer : public c10d::Timer {
 public:
  explicit DdpTimer(c10::Device device) : device_(device.index()) {}

  void record(Event event) override {
    Timer::record(event);
    auto& slot = events_.at(static_cast<size_t>(event));
    if (slot == nullptr) slot.reset(take_event(device_, Timing::kOn));
    record_event(*slot, current_stream_of(device_));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto& first = events_.at(static_cast<size_t>(start));
    const auto& second = events_.at(static_cast<size_t>(end));
    if (first == nullptr || second == nullptr) return std::nullopt;
    synchronize_event(*first);
    synchronize_event(*second);
    const uint64_t begin = event_time(*first), finish = event_time(*second);  // microseconds
    if (finish < begin) return std::nullopt;                                  // the step did not record the second one
    return static_cast<int64_t>(finish - begin) * 1000;
  }

 private:
  c10::DeviceIndex device_;
  std::array<std::unique_ptr<PooledEvent, ReturnEvent>, 5> events_;
};

}  // namespace
}  // namespace torch_npu::distributed

namespace c10d {

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, torch_npu::distributed::DdpTimer)

}  // namespace c10d
