#include "runtime/device/process.h"

#include <pthread.h>

#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/checks/faults.h"
#include "runtime/dump/dumps.h"
#include "runtime/engine/cpu_engine.h"
#include "runtime/memory/ledger.h"
#include "runtime/stream/callback.h"
#include "runtime/stream/event.h"
#include "runtime/stream/exception.h"
#include "runtime/stream/task_queue.h"
#include "runtime/stream/thread_state.h"

namespace softnpu {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);  // limit of the wait for running tasks at exit and in aclFinalize

std::mutex g_mutex;    // guards initialisation and finalisation
uint64_t g_users = 0;  // guarded by g_mutex

// Holds g_mutex. In a host callback it does not wait for the mutex, because aclFinalize holds it while it waits for the callback.
class ProcessLock {
 public:
  ProcessLock() : lock_(g_mutex, std::defer_lock) {
    if (check_may_wait().ok()) {
      lock_.lock();
    } else {
      static_cast<void>(lock_.try_lock());
    }
  }
  Status status() const {
    if (lock_.owns_lock()) return {};
    return {ACL_ERROR_UNINITIALIZE, "another thread initialises or finalizes the device library; a host callback does not wait"};
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

std::mutex g_engine_mutex;  // held while the engine is made

template <typename Condition>
void wait_a_while_for(Condition condition) {
  const Deadline deadline = Deadline::after(kPatience);
  while (!condition() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

// A function of the client does not count, because it may wait for the thread that ends the process.
bool any_task_runs() {
  bool runs = false;
  stream_pool().for_each_slot([&](Stream& stream) { runs |= stream.queue().busy_with_own_code(); });
  return runs;
}

const std::vector<Device*>& devices_by_host_number() {
  static const auto* all = [] {
    auto* made = new std::vector<Device*>(size_t(options().device_count), nullptr);
    for (Device* device : devices()) (*made)[size_t(device->host_number())] = device;
    return made;
  }();
  return *all;
}

}  // namespace

Status open_engine() {
  if (has_engine()) return {};
  std::lock_guard guard(g_engine_mutex);
  if (has_engine()) return {};
  Result<std::unique_ptr<Engine>> made = CpuEngine::create(options().device_count, options().device_memory);
  if (!made.ok()) return made.take_status();
  set_engine(std::move(made.value()));
  if (!ledger().problem().ok()) warn(ledger().problem().message());
  return {};
}

std::span<Device* const> devices() {
  static const auto* all = [] {
    auto* made = new std::vector<Device*>;
    for (int host_number : options().visible_devices) made->push_back(new Device(int(made->size()), host_number));
    return made;
  }();
  return *all;
}

Result<Device*> find_device(int64_t number) {
  const std::span<Device* const> all = devices();
  if (number >= 0 && number < int64_t(all.size())) [[likely]]
    return all[size_t(number)];
  if (all.empty()) return Status(ACL_ERROR_RT_NO_DEVICE, "no device is visible; ASCEND_RT_VISIBLE_DEVICES hides them all");
  return Status(ACL_ERROR_RT_INVALID_DEVICEID,
                text("device ", number, " does not exist; devices 0 to ", all.size() - 1, " are visible"));
}

Device& device_at(int host_number) { return *devices_by_host_number()[size_t(host_number)]; }

bool device_is_visible(int host_number) {
  const std::vector<Device*>& all = devices_by_host_number();
  return size_t(host_number) < all.size() && all[size_t(host_number)] != nullptr;
}

SystemParameters& Process::parameters() {
  static auto* instance = new SystemParameters;
  return *instance;
}

Status Process::not_ready() {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kForkedChild:
      return {ACL_ERROR_UNINITIALIZE,
              "this process was forked from one that used the device, whose memory and threads do not come along; start it with "
              "the 'spawn' method instead"};
    case State::kFinalised:
      return {ACL_ERROR_UNINITIALIZE, "the device library was finalized; call aclInit again before using it"};
    default:
      return {ACL_ERROR_UNINITIALIZE, "call aclInit first"};
  }
}

Status Process::read_config(const char* path) {
  Result<std::string> content = read_whole(path);
  if (!content.ok()) return content.take_status();
  if (content.value().find_first_not_of(" \t\r\n") == std::string::npos) return {};
  // The vendor's examples of files with a dump have mistakes, so such files are read leniently.
  const bool has_dump = content.value().find("\"dump_path\"") != std::string::npos;
  Result<Json> parsed = parse_config(content.value(), path, /*lenient=*/has_dump);
  if (!parsed.ok()) return parsed.take_status();
  if (!parsed.value().object())
    return {ACL_ERROR_PARSE_FILE, text("the configuration file '", path, "' must hold a JSON object")};
  SOFTNPU_RETURN_IF_ERROR(read_error_mode(parsed.value(), path));
  // A "dump" without a path configures other dumps, such as dumps of exceptions.
  const Json* dump = parsed.value().find("dump");
  if (dump == nullptr || dump->find("dump_path") == nullptr) return {};
  Result<DumpConfig> config = parse_dump_config(*dump, path);
  if (!config.ok()) return config.take_status();
  return Dumps::start(std::move(config.value()));
}

Status Process::read_error_mode(const Json& config, const char* path) {
  const Json* mode = config.find("err_msg_mode");
  if (mode == nullptr) return {};
  const std::string* value = mode->string();
  if (value == nullptr || (*value != "0" && *value != "1")) {
    return {ACL_ERROR_FILE_ATTR_INVALID,
            text("'err_msg_mode' in '", path, "' must be \"0\" (per thread) or \"1\" (per process)")};
  }
  shares_recent_error_.store(*value == "1", std::memory_order_relaxed);
  return {};
}

void Process::install_handlers_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      if (uses_devices_.load(std::memory_order_relaxed)) state_.store(State::kForkedChild, std::memory_order_relaxed);
    });
    std::atexit([] { stop_at_exit(); });
  });
}

Status Process::initialise(const char* config_path) {
  if (is_forked_child()) return not_ready();
  const ProcessLock lock;
  SOFTNPU_RETURN_IF_ERROR(lock.status());
  if (state_.load(std::memory_order_relaxed) == State::kReady) {
    ++g_users;
    return {ACL_ERROR_REPEAT_INITIALIZE, "the device library is initialised already; go on using it"};
  }
  if (config_path != nullptr && *config_path != '\0') SOFTNPU_RETURN_IF_ERROR(read_config(config_path));
  install_handlers_once();
  devices();
  Faults::read_setting();
  g_users = 1;
  state_.store(State::kReady, std::memory_order_release);
  SOFTNPU_LOG_EVENT("initialised with ", devices().size(), " devices");
  return {};
}

Status Process::finalise() {
  if (is_forked_child()) return not_ready();
  SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  std::lock_guard guard(g_mutex);
  if (state_.load(std::memory_order_relaxed) == State::kFinalised)
    return {ACL_ERROR_REPEAT_FINALIZE, "the device library was finalized already"};
  if (state_.load(std::memory_order_relaxed) != State::kReady) return not_ready();
  finalise_locked();
  return {};
}

Result<uint64_t> Process::finalise_reference() {
  if (is_forked_child()) return not_ready();
  const ProcessLock lock;
  SOFTNPU_RETURN_IF_ERROR(lock.status());
  if (state_.load(std::memory_order_relaxed) != State::kReady) return not_ready();
  if (g_users == 1) SOFTNPU_RETURN_IF_ERROR(check_may_wait());
  if (--g_users == 0) finalise_locked();
  return g_users;
}

void Process::finalise_locked() {
  state_.store(State::kFinalised, std::memory_order_release);  // calls of other threads are refused from now on
  g_users = 0;
  for (Device* device : devices()) device->shut_down();
  wait_a_while_for([] { return TaskQueue::worker_count() == 0 || TaskQueue::is_exiting(); });
  event_pool().for_each_live([](const Ref<Event>& event) {
    if (!event_pool().withdraw(event)) return;
    event->close();
    event_pool().give_back(*event);
  });
  Dumps::end();
  Reports::instance().clear();
  set_exception_callback(nullptr);
  shares_recent_error_.store(false, std::memory_order_relaxed);
}

// An atexit handler. It runs before the destructors of libraries that were loaded earlier and whose code tasks may run.
void Process::stop_at_exit() {
  if (is_forked_child()) return;
  TaskQueue::begin_exit();
  stream_pool().for_each_slot([](Stream& stream) { stream.queue().wake_for_exit(); });
  Reports::instance().wake_for_exit();
  wait_a_while_for([] { return !any_task_runs(); });
  Dumps::finish_files();
}

}  // namespace softnpu
