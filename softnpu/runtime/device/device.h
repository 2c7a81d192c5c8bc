// A device: memory, contexts, and the numbers that describe it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/memory/heap.h"
#include "runtime/stream/context.h"

namespace softnpu {

// What the SoC name stands for; figures of the real chips, which the software device reports but does not depend on.
struct SocFigures {
  uint32_t cube_cores;
  uint32_t vector_cores;
  uint64_t l2_bytes;
  int64_t npu_arch;
  bool has_bf16_and_inf_nan;  // from the second generation on
};
SocFigures soc_figures();

// Whether a result that is too large becomes infinite: the chip of that name does so, unless SOFTNPU_CHIP_LIMITS forbids it.
bool chip_has_inf_nan();

// ACL_ERROR_RT_PARAM_INVALID for a kind of core that does not exist, and for a number of them that the chip does not have.
Status check_core_kind(aclrtDevResLimitType kind);
Status check_core_limit(aclrtDevResLimitType kind, uint32_t value);

// Thread-safe. Exists from the first call that asks for devices until the process ends; costs nothing until it is used.
class Device {
 public:
  // `number` as this process counts its visible devices, `host_number` as the host counts.
  Device(int number, int host_number);

  int number() const { return number_; }
  int host_number() const { return host_number_; }

  // aclrtSetDevice: counts a user of the primary context and returns it.
  Result<Ref<Context>> retain_primary();
  // aclrtResetDevice: the last user's call waits for all work, then destroys the primary context and frees the device's memory,
  // unless contexts that the client made are left. With `force` whoever calls is the last user.
  Status release_primary(bool force);
  bool primary_is_active() const;

  Result<Ref<Context>> create_context();
  Status destroy_context(const Ref<Context>& context);

  // Waits for what all streams of all contexts hold now, then returns one failure; the next call returns the next one.
  Status synchronize(Deadline deadline);
  Status abort(Deadline deadline);
  // Drops pending work, contexts and memory; for aclFinalize.
  void shut_down();
  // Whether a stream runs a task at this moment.
  bool is_busy() const;

  // Null until the device was first used.
  Heap* heap() const { return heap_pointer_.load(std::memory_order_acquire); }

  // The mode of the chip until the client sets one. Operators follow only what was set: softnpu has infinity and NaN where the
  // chip has not, unless SOFTNPU_CHIP_LIMITS asks for its limits.
  aclrtFloatOverflowMode saturation_mode() const;
  void set_saturation_mode(aclrtFloatOverflowMode mode);
  bool saturates() const { return mode_that_was_set_.load(std::memory_order_relaxed) == ACL_RT_OVERFLOW_MODE_SATURATION; }
  // What restricts operators: SoftnpuDriver::limits.
  static const uint32_t* limits();

  std::atomic<bool> overflowed{false};
  std::atomic<uint64_t> peers{0};  // devices whose memory was opened to this one, by number
  CoreLimits core_limits{};
  void reset_core_limits();

 private:
  Status open_heap();
  Result<Ref<Context>> make_context(Context::Role role);
  bool begin_closing(const Ref<Context>& context);
  Status finish_closing(const Ref<Context>& context);
  std::vector<StreamMark> streams() const;
  void free_memory();

  const int number_;
  const int host_number_;
  mutable std::mutex mutex_;  // guards the following; never held while waiting for tasks or for the client
  uint64_t users_ = 0;
  Ref<Context> primary_;
  // A context leaves its list before its slot can be reused.
  std::vector<Ref<Context>> contexts_;
  std::vector<Ref<Context>> closing_;  // no call finds them any more, but their tasks are still waited for
  std::unique_ptr<Heap> heap_;
  std::atomic<Heap*> heap_pointer_{nullptr};
  std::atomic<aclrtFloatOverflowMode> mode_that_was_set_{ACL_RT_OVERFLOW_MODE_UNDEF};
};

}  // namespace softnpu
