#include "runtime/device/device.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/checks/fault_report.h"
#include "runtime/device/process.h"
#include "runtime/driver.h"
#include "runtime/engine/engine.h"
#include "runtime/memory/heaps.h"
#include "runtime/memory/ipc_memory.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/virtual_memory.h"

namespace softnpu {

SocFigures soc_figures() {
  constexpr uint64_t kMiB = 1 << 20;
  const std::string_view name = options().soc_name;
  if (name.starts_with("Ascend910_93")) return {24, 48, 192 * kMiB, 2201, true};
  if (name.starts_with("Ascend910B1") || name.starts_with("Ascend910B2")) return {24, 48, 192 * kMiB, 2201, true};
  if (name.starts_with("Ascend910B3") || name.starts_with("Ascend910B4")) return {20, 40, 192 * kMiB, 2201, true};
  if (name.starts_with("Ascend910")) return {32, 32, 32 * kMiB, 1001, false};
  if (name.starts_with("Ascend310P")) return {8, 8, 16 * kMiB, 2002, false};
  if (name.starts_with("Ascend310B")) return {1, 1, 4 * kMiB, 3002, false};
  return {24, 48, 192 * kMiB, 2201, true};
}

Status check_core_kind(aclrtDevResLimitType kind) {
  if (kind == ACL_RT_DEV_RES_CUBE_CORE || kind == ACL_RT_DEV_RES_VECTOR_CORE) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text("resource ", int(kind), " is unknown; it is 0 (cube cores) or 1 (vector cores)")};
}

Status check_core_limit(aclrtDevResLimitType kind, uint32_t value) {
  SOFTNPU_RETURN_IF_ERROR(check_core_kind(kind));
  const SocFigures figures = soc_figures();
  const uint32_t most = kind == ACL_RT_DEV_RES_CUBE_CORE ? figures.cube_cores : figures.vector_cores;
  if (value >= 1 && value <= most) return {};
  return {ACL_ERROR_RT_PARAM_INVALID, text(value, " cores are asked for; ", options().soc_name, " has 1 to ", most)};
}

Device::Device(int number, int host_number) : StreamDevice(number, host_number) { reset_core_limits(); }

namespace {

std::atomic<uint32_t>& limits_of_operators() {
  static std::atomic<uint32_t> limits{options().chip_limits ? uint32_t{SOFTNPU_LIMITS_CHIP} : 0};
  return limits;
}

}  // namespace

bool chip_has_inf_nan() { return soc_figures().has_bf16_and_inf_nan && !options().chip_limits; }

const uint32_t* Device::limits() {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return reinterpret_cast<const uint32_t*>(&limits_of_operators());
}

aclrtFloatOverflowMode Device::saturation_mode() const {
  const aclrtFloatOverflowMode set = mode_that_was_set_.load(std::memory_order_relaxed);
  if (set != ACL_RT_OVERFLOW_MODE_UNDEF) return set;
  return chip_has_inf_nan() ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION;
}

void Device::set_saturation_mode(aclrtFloatOverflowMode mode) {
  mode_that_was_set_.store(mode, std::memory_order_relaxed);
  if (saturates()) limits_of_operators().fetch_or(SOFTNPU_LIMITS_SATURATION, std::memory_order_relaxed);
}

void Device::reset_core_limits() {
  const SocFigures figures = soc_figures();
  core_limits[ACL_RT_DEV_RES_CUBE_CORE].store(figures.cube_cores, std::memory_order_relaxed);
  core_limits[ACL_RT_DEV_RES_VECTOR_CORE].store(figures.vector_cores, std::memory_order_relaxed);
}

Status Device::open_heap() {
  if (heap_ != nullptr) return {};
  SOFTNPU_RETURN_IF_ERROR(open_engine());
  const MemoryCheck& checks = options().memory_check;
  Result<std::unique_ptr<Heap>> opened =
      Heap::open(engine(), ledger(), host_number(), options().host_memory,
                 {.red_zones = checks.red_zones, .poison = checks.poison, .guard_pages = checks.guard_pages});
  if (!opened.ok()) return opened.take_status();
  heap_ = std::move(opened.value());
  heap_pointer_.store(heap_.get(), std::memory_order_release);
  Heaps::add(host_number(), number(), *heap_);
  install_fault_report(any_running_kind);
  SOFTNPU_LOG_EVENT("device ", number(), " opened with ", heap_->capacity(), " bytes");
  return {};
}

// Call it with mutex_ held.
Result<Ref<Context>> Device::make_context(Context::Role role) {
  SOFTNPU_RETURN_IF_ERROR(Process::ready());  // another thread may have called aclFinalize since the begin of this call
  SOFTNPU_RETURN_IF_ERROR(open_heap());
  Process::note_device_use();
  Context* context = context_pool().take();
  if (context == nullptr) return Status(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "the process has too many contexts; destroy some");
  if (Status status = context->open(*this, role); !status.ok()) {
    context_pool().give_back(*context);
    return status;
  }
  contexts_.push_back(context_pool().publish(*context));
  return contexts_.back();
}

Result<Ref<Context>> Device::create_context() {
  std::lock_guard guard(mutex_);
  return make_context(Context::Role::kMade);
}

Result<Ref<Context>> Device::retain_primary() {
  std::lock_guard guard(mutex_);
  if (primary_.object == nullptr) {
    Result<Ref<Context>> made = make_context(Context::Role::kPrimary);
    if (!made.ok()) return made;
    primary_ = made.value();
  }
  ++users_;
  return primary_;
}

bool Device::primary_is_active() const {
  std::lock_guard guard(mutex_);
  return primary_.object != nullptr;
}

std::vector<StreamMark> Device::streams() const {
  std::vector<StreamMark> found;
  std::lock_guard guard(mutex_);
  for (const Ref<Context>& context : contexts_) context->list_streams(found);
  return found;
}

bool Device::is_busy() const {
  const std::vector<StreamMark> all = streams();
  return std::any_of(all.begin(), all.end(), [](const StreamMark& mark) { return mark.stream->queue().busy(); });
}

// Call it with mutex_ held. Withdraws the context, so that no call finds it any more. False if another thread closes it.
bool Device::begin_closing(const Ref<Context>& context) {
  const auto same = [&](const Ref<Context>& other) { return other.object == context.object; };
  const auto entry = std::find_if(contexts_.begin(), contexts_.end(), same);
  if (entry == contexts_.end() || !context_pool().withdraw(context)) return false;
  contexts_.erase(entry);
  closing_.push_back(context);
  return true;
}

// Waits for the tasks of the context.
Status Device::finish_closing(const Ref<Context>& context) {
  Status status = context->close(/*wait=*/true);
  std::lock_guard guard(mutex_);
  std::erase_if(closing_, [&](const Ref<Context>& other) { return other.object == context.object; });
  context_pool().give_back(*context);
  if (contexts_.empty() && closing_.empty()) free_memory();
  return status;
}

// Call it with mutex_ held.
void Device::free_memory() {
  if (heap_ == nullptr) return;
  IpcMemory::forget_device(host_number());
  VirtualMemory::forget_device(host_number());
  heap_->release_all();
  overflowed.store(false, std::memory_order_relaxed);
}

Status Device::destroy_context(const Ref<Context>& context) {
  if (context->is_primary()) {
    return {ACL_ERROR_RT_PARAM_INVALID, "the primary context is not destroyed but given back, with aclrtResetDevice"};
  }
  {
    std::lock_guard guard(mutex_);
    if (!begin_closing(context)) return {ACL_ERROR_RT_INVALID_HANDLE, "the context is being destroyed by another thread"};
  }
  return finish_closing(context);
}

Status Device::release_primary(bool force) {
  Ref<Context> context;
  {
    std::lock_guard guard(mutex_);
    if (primary_.object == nullptr) {
      return {ACL_ERROR_RT_CONTEXT_NULL,
              text("device ", number(), " is not in use: aclrtResetDevice was called as often as aclrtSetDevice")};
    }
    if (!force && --users_ > 0) return {};
    users_ = 0;
    context = std::exchange(primary_, {});
    if (!begin_closing(context)) return {ACL_ERROR_RT_INVALID_HANDLE, "the context is being destroyed by another thread"};
  }
  return finish_closing(context);
}

Status Device::synchronize(Deadline deadline) {
  const std::vector<StreamMark> marks = streams();
  Status thrown_away;
  for (const StreamMark& mark : marks) {
    Status status = mark.stream->wait(mark.newest, deadline);
    if (!status.ok() && !mark.stream->queue().reached(mark.newest)) return status;  // the deadline passed, or the process exits
    if (thrown_away.ok()) thrown_away = std::move(status);
  }
  if (!thrown_away.ok()) return thrown_away;
  for (const StreamMark& mark : marks) {
    Status failure = mark.stream->take_failure(mark.newest);
    if (!failure.ok() && !mark.stream->is_lane.load(std::memory_order_relaxed)) return failure;
  }
  return {};
}

Status Device::abort(Deadline deadline) {
  std::vector<StreamMark> marks = streams();
  for (StreamMark& mark : marks) mark.newest = mark.stream->queue().skip_pending(ACL_ERROR_RT_DEVICE_TASK_ABORT, mark.life);
  Status first;
  for (const StreamMark& mark : marks) {
    Status status = mark.stream->await_abort(mark.newest, deadline);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

void Device::shut_down() {
  std::lock_guard guard(mutex_);
  // Another thread closes these contexts and gives their slots back. Closing them here ends its wait.
  for (const Ref<Context>& context : closing_) static_cast<void>(context->close(/*wait=*/false));
  for (const Ref<Context>& context : std::exchange(contexts_, {})) {
    if (!context_pool().withdraw(context)) continue;
    static_cast<void>(context->close(/*wait=*/false));
    context_pool().give_back(*context);
  }
  primary_ = {};
  users_ = 0;
  free_memory();
}

}  // namespace softnpu
