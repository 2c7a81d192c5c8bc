#include "core/device/device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "acl/library.h"
#include "acl/symbol.h"
#include "base/log.h"
#include "base/options.h"
#include "core/device/affinity.h"

namespace torch_npu {

namespace detail {

thread_local constinit ThreadState* known_thread_state = nullptr;

ThreadState& make_thread_state() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void* state) {
      known_thread_state = nullptr;
      delete static_cast<ThreadState*>(state);
    });
    return made;
  }();
  known_thread_state = new ThreadState;
  pthread_setspecific(key, known_thread_state);
  return *known_thread_state;
}

}  // namespace detail

namespace {

using detail::thread_state;

std::atomic<int> cached_count{-1};
std::atomic<bool> initialized{false};
std::atomic<bool> in_bad_fork{false};
std::atomic<uint64_t> used_devices{0};  // one bit each

static_assert(kMaxDevices <= 64);

void after_fork_in_child() {
  if (used_devices.load(std::memory_order_relaxed) == 0) return;
  in_bad_fork.store(true, std::memory_order_relaxed);
  thread_state().bound_device = -1;  // the next bind_device() then calls initialize(), which throws
}

std::vector<void (*)()>& functions_at_initialization() {
  static auto* const leaked = new std::vector<void (*)()>;
  return *leaked;
}

bool exists(int64_t index) { return index >= 0 && index < device_count(); }

int64_t device_info(c10::DeviceIndex device, aclrtDevAttr attribute) {
  int64_t value = 0;
  ACL_CALL(aclrtGetDeviceInfo, static_cast<uint32_t>(device), attribute, &value);
  return value;
}

std::string uuid_text(c10::DeviceIndex device) {
  if (acl::find_symbol("aclrtDeviceGetUuid") == nullptr) return {};
  aclrtUuid uuid{};
  ACL_CALL(aclrtDeviceGetUuid, device, &uuid);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// Whether the chip can compute with infinity and NaN.
bool chip_has_inf_nan() {
  int32_t has = 0;
  const auto get = reinterpret_cast<decltype(&::aclGetCannAttribute)>(acl::find_symbol("aclGetCannAttribute"));
  return get != nullptr && get(ACL_CANN_ATTR_INF_NAN, &has) == ACL_SUCCESS && has != 0;
}

void check_inf_nan_mode() {
  TORCH_CHECK(options().inf_nan || options().may_saturate || !chip_has_inf_nan(), "INF_NAN_MODE_ENABLE=0 makes ",
              acl::library_info().soc,
              " hide overflows: infinity and NaN become the largest number and 0. Unset it, or set INF_NAN_MODE_FORCE_DISABLE=1 "
              "too if that is what you want.");
}

// Called at the first use of a device, after binding it. Several threads may do so at once.
void set_up_device(c10::DeviceIndex device) {
  if (logs(LogPart::kAcl, LogLevel::kInfo)) {
    log(LogPart::kAcl, LogLevel::kInfo, c10::str("npu:", static_cast<int>(device), " is in use"));
  }
  if (!supports_inf_nan() && chip_has_inf_nan()) ACL_CALL(aclrtSetDeviceSatMode, ACL_RT_OVERFLOW_MODE_SATURATION);
}

}  // namespace

void detail::refuse_in_forked_child() {
  TORCH_CHECK(!is_in_bad_fork(),
              "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' start "
              "method: the process that forked this one had used an NPU, whose memory and threads do not come along.");
}

void detail::refuse_device(int64_t index) {
  const int count = device_count();
  if (count == 0) acl::library_info();  // throws if the library cannot be loaded
  TORCH_CHECK(count > 0, "there is no NPU in this process: the device library ", acl::library_info().path,
              " reports no device. ASCEND_RT_VISIBLE_DEVICES may hide them.");
  TORCH_CHECK(false, "invalid device npu:", index, ": this process has ", count, count == 1 ? " NPU" : " NPUs", ", npu:0",
              count == 1 ? "" : c10::str(" to npu:", count - 1), ". ASCEND_RT_VISIBLE_DEVICES says which ones it may use.");
}

void detail::bind_current_device() {
  initialize();
  const c10::DeviceIndex device = thread_state().current_device;
  if (!exists(device)) refuse_device(device);
  ACL_CALL(aclrtSetDevice, device);
  if (!has_context(device)) set_up_device(device);
  used_devices.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
  bind_to_cores_of(device);
  thread_state().bound_device = device;
}

c10::DeviceIndex device_count() noexcept {
  if (const int count = cached_count.load(std::memory_order_relaxed); count >= 0) return static_cast<c10::DeviceIndex>(count);
  try {
    uint32_t count = 0;
    if (ACL_FN(aclrtGetDeviceCount)(&count) != ACL_SUCCESS) return 0;
    count = std::min<uint32_t>(count, kMaxDevices);
    cached_count.store(static_cast<int>(count), std::memory_order_relaxed);
    return static_cast<c10::DeviceIndex>(count);
  } catch (const std::exception&) {  // no device library: the first use of a device throws the reason
    return 0;
  }
}

c10::DeviceIndex current_device() noexcept { return thread_state().current_device; }

void set_device(c10::DeviceIndex index) { exchange_device(index); }

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const c10::DeviceIndex previous = thread_state().current_device;
  if (index == previous) return previous;
  if (!exists(index)) detail::refuse_device(index);
  thread_state().current_device = index;
  return previous;
}

c10::DeviceIndex checked_device(int64_t index) {
  if (index == -1) return current_device();
  if (!exists(index)) detail::refuse_device(index);
  return static_cast<c10::DeviceIndex>(index);
}

void call_at_initialization(void (*function)()) { functions_at_initialization().push_back(function); }

void initialize() {
  detail::refuse_in_forked_child();
  if (is_initialized()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (is_initialized()) return;
  check_inf_nan_mode();
  const std::string& config = options().init_config;
  const aclError code = ACL_FN(aclInit)(config.empty() ? nullptr : config.c_str());
  if (code != ACL_ERROR_REPEAT_INITIALIZE) acl::check(code, "aclInit");  // another client may have initialised the library
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  for (void (*const function)() : functions_at_initialization()) function();
  initialized.store(true, std::memory_order_release);
}

bool is_initialized() noexcept { return initialized.load(std::memory_order_acquire); }

bool supports_inf_nan() { return chip_has_inf_nan() && options().inf_nan; }

bool is_in_bad_fork() noexcept { return in_bad_fork.load(std::memory_order_relaxed); }

bool has_context(c10::DeviceIndex index) noexcept {
  return index >= 0 && index < kMaxDevices && (used_devices.load(std::memory_order_relaxed) >> index & 1);
}

DeviceProperties device_properties(c10::DeviceIndex index) {
  const c10::DeviceIndex device = checked_device(index);
  initialize();
  return {.name = acl::library_info().soc,
          .total_memory = static_cast<uint64_t>(device_info(device, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE)),
          .cube_core_num = device_info(device, ACL_DEV_ATTR_CUBE_CORE_NUM),
          .vector_core_num = device_info(device, ACL_DEV_ATTR_VECTOR_CORE_NUM),
          .l2_cache_size = device_info(device, ACL_DEV_ATTR_L2_CACHE_SIZE),
          .uuid = uuid_text(device)};
}

std::pair<size_t, size_t> device_memory(c10::DeviceIndex index) {
  const BoundDevice bound(checked_device(index));
  size_t free = 0, total = 0;
  ACL_CALL(aclrtGetMemInfo, ACL_HBM_MEM, &free, &total);
  return {free, total};
}

}  // namespace torch_npu
