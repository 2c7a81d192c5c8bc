// One test per sentence of wait.h.
#include <gtest/gtest.h>

#include <functional>

#include "core/stream/all_work.h"
#include "core/stream/event.h"
#include "core/stream/wait.h"
#include "gate.h"

namespace torch_npu {
namespace {

struct Interrupted {};

std::function<void()> on_check;

// While an object lives, `check` runs between the slices of waits.
class Checking {
 public:
  explicit Checking(std::function<void()> check) {
    on_check = std::move(check);
    set_interrupt_check([] { on_check(); });
  }
  ~Checking() { set_interrupt_check(nullptr); }
};

void interrupt() { throw Interrupted(); }

// Each kind of wait for a stream.
const std::vector<std::function<void(NPUStream)>> kWaits = {
    [](NPUStream stream) { stream.synchronize(); },
    [](NPUStream stream) { synchronize_device(stream.device_index()); },
    [](NPUStream stream) {
      NPUEvent event;
      event.record(stream);
      event.synchronize();
    },
};

TEST(Wait, AnInterruptEndsTheWaitAndNotTheWork) {
  for (const auto& wait : kWaits) {
    const NPUStream stream = getNPUStreamFromPool(false, 1);
    Gate gate(stream);
    {
      const Checking checking(interrupt);
      EXPECT_THROW(wait(stream), Interrupted);
    }
    EXPECT_FALSE(stream.query());
    EXPECT_EQ(current_device(), 0);
    gate.open();
    wait(stream);
    EXPECT_TRUE(stream.query());
  }
}

TEST(Wait, ContinuesAfterTheCheckUsedAnotherDevice) {
  for (const auto& wait : kWaits) {
    const NPUStream stream = getNPUStreamFromPool(false, 1);
    Gate gate(stream);
    const Checking checking([&] {
      const BoundDevice other(0);
      getDefaultNPUStream(0).synchronize();
      gate.open();
    });
    wait(stream);
    EXPECT_TRUE(stream.query());
  }
}

TEST(Wait, DoesNotCheckWhenNothingIsPending) {
  const Checking checking(interrupt);
  for (const auto& wait : kWaits) wait(getNPUStreamFromPool());
}

TEST(Wait, IsNotInterruptedDuringUninterruptedWaits) {
  const NPUStream stream = getNPUStreamFromPool();
  Gate gate(stream);
  const Checking checking(interrupt);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * detail::kSlice));
    gate.open();
  });
  {
    const UninterruptedWaits scope;
    stream.synchronize();
  }
  opener.join();
  EXPECT_TRUE(stream.query());
}

TEST(Wait, ForAStreamEndsWhileOtherThreadsKeepItBusy) {
  const NPUStream stream = getNPUStreamFromPool();
  std::unique_ptr<Gate> later;
  auto gate = std::make_unique<Gate>(stream);
  const Checking checking([&] {
    if (later == nullptr) later = std::make_unique<Gate>(stream);
    gate->open();
  });
  stream.synchronize();
  EXPECT_FALSE(stream.query());
}

}  // namespace
}  // namespace torch_npu
