// A device: its memory, contexts and properties.
//
//   Result<Device*> device = find_device(0);                               // device/process.h
//   Result<Ref<Context>> context = device.value()->retain_primary();       // aclrtSetDevice
//   device.value()->synchronize(Deadline::never());
//   device.value()->release_primary(/*force=*/false);                      // aclrtResetDevice
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/memory/heap.h"
#include "runtime/stream/context.h"
#include "runtime/stream/stream_device.h"

namespace softnpu {

// Properties of the chip that SOFTNPU_SOC_NAME names. The software device reports them and does not depend on them.
struct SocFigures {
  uint32_t cube_cores;
  uint32_t vector_cores;
  uint64_t l2_bytes;
  int64_t npu_arch;
  bool has_bf16_and_inf_nan;  // true from the second generation on
};
SocFigures soc_figures();

// Whether an overflow gives infinity: true for chips that have infinity and NaN, unless SOFTNPU_CHIP_LIMITS is 1.
bool chip_has_inf_nan();

// ACL_ERROR_RT_PARAM_INVALID for an unknown kind of core, and for a number of cores that the chip does not have.
Status check_core_kind(aclrtDevResLimitType kind);
Status check_core_limit(aclrtDevResLimitType kind, uint32_t value);

// Thread-safe. Created by the first call of devices() and never destroyed. Takes no memory of the device until it is used.
class Device : public StreamDevice {
 public:
  Device(int number, int host_number);

  // aclrtSetDevice: adds a user of the primary context and returns the context.
  Result<Ref<Context>> retain_primary();
  // aclrtResetDevice: removes a user. For the last user it waits for all tasks of the primary context and destroys the context.
  // If the device then has no context, its memory is freed. With `force` the caller counts as the last user.
  Status release_primary(bool force);
  bool primary_is_active() const;

  Result<Ref<Context>> create_context();
  Status destroy_context(const Ref<Context>& context);

  // Waits for the tasks that all streams of all contexts hold now, then returns one failure. If several streams failed, the next
  // call returns the next failure.
  Status synchronize(Deadline deadline);
  Status abort(Deadline deadline);
  // For aclFinalize: skips pending tasks, destroys all contexts and frees the memory.
  void shut_down();
  // Whether a stream runs a task now.
  bool is_busy() const;

  // Null until the first use of the device.
  Heap* heap() const { return heap_pointer_.load(std::memory_order_acquire); }

  // The mode of the chip, until the client sets another one. Operators saturate only if the client set that mode, or with
  // SOFTNPU_CHIP_LIMITS=1. Otherwise they have infinity and NaN, even if the chip does not.
  aclrtFloatOverflowMode saturation_mode() const;
  void set_saturation_mode(aclrtFloatOverflowMode mode);
  bool saturates() const { return mode_that_was_set_.load(std::memory_order_relaxed) == ACL_RT_OVERFLOW_MODE_SATURATION; }
  // The value of SoftnpuDriver::limits.
  static const uint32_t* limits();

  std::atomic<bool> overflowed{false};
  std::atomic<uint64_t> peers{0};  // bit n: peer access to device n is enabled
  void reset_core_limits();

 private:
  Status open_heap();
  Result<Ref<Context>> make_context(Context::Role role);
  bool begin_closing(const Ref<Context>& context);
  Status finish_closing(const Ref<Context>& context);
  std::vector<StreamMark> streams() const;
  void free_memory();

  mutable std::mutex mutex_;  // guards the following; not held while waiting for tasks or calling the client
  uint64_t users_ = 0;
  Ref<Context> primary_;
  // A context is removed from its list before its slot is given back.
  std::vector<Ref<Context>> contexts_;
  std::vector<Ref<Context>> closing_;  // withdrawn, but a thread still waits for their tasks
  std::unique_ptr<Heap> heap_;
  std::atomic<Heap*> heap_pointer_{nullptr};
  std::atomic<aclrtFloatOverflowMode> mode_that_was_set_{ACL_RT_OVERFLOW_MODE_UNDEF};
};

// The device of a context or stream.
template <class Owner>
Device& device_of(const Owner& owner) {
  return static_cast<Device&>(owner.device());
}

}  // namespace softnpu
