#include "core/stream/launch_trace.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "acl/softnpu.h"
#include "acl/symbol.h"
#include "base/log.h"
#include "base/options.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

std::atomic<PythonLocation> python_location{nullptr};

struct Launch {
  uint64_t number;
  std::string op;
  std::string arguments;
  std::string python;
};

std::string text_of(const Launch& launch) {
  return c10::str("\nThe operator was ", launch.op, launch.arguments.empty() ? "" : " with ", launch.arguments, ", called from ",
                  launch.python.empty() ? "no Python code (the backward pass, or C++)" : launch.python, ".");
}

// The launches of one stream that may still be pending, and a counter in device memory. After each launch the stream writes the
// number of the launch to the counter. The stream skips the tasks behind a failed one, so after a failure the counter holds the
// number of the launch before the failed one.
class StreamTrace {
 public:
  explicit StreamTrace(NPUStream stream) : stream_(stream) {
    ACL_CALL(aclrtMalloc, &counter_, sizeof(uint64_t), ACL_MEM_MALLOC_NORMAL_ONLY);
    const uint64_t zero = 0;
    const aclError code = ACL_FN(aclrtMemcpy)(counter_, sizeof zero, &zero, sizeof zero, ACL_MEMCPY_HOST_TO_DEVICE);
    if (code == ACL_SUCCESS) return;
    ACL_FN(aclrtFree)(counter_);
    acl::fail(code, "aclrtMemcpy");
  }

  void add(Launch launch) {
    launch.number = ++newest_;
    launches_.push_back(std::move(launch));
    if (launches_.size() > kMostPending) launches_.pop_front();
    ACL_CALL(aclrtValueWrite, counter_, newest_, 0, stream_.stream());
  }

  // Describes the oldest launch that is not done, and forgets it and all later ones. Empty if `message` does not name its
  // operator.
  std::string take_failed(const std::string& message) {
    const BoundDevice bound(stream_.device_index());
    uint64_t done = 0;
    const aclError code = ACL_FN(aclrtMemcpy)(&done, sizeof done, counter_, sizeof done, ACL_MEMCPY_DEVICE_TO_HOST);
    if (code != ACL_SUCCESS) return {};
    while (!launches_.empty() && launches_.front().number <= done) launches_.pop_front();
    if (launches_.empty() || message.find(launches_.front().op) == std::string::npos) return {};
    const std::string text = text_of(launches_.front());
    launches_.clear();
    return text;
  }

 private:
  static constexpr size_t kMostPending = 4096;  // more than the queue of a stream holds

  NPUStream stream_;
  void* counter_ = nullptr;
  uint64_t newest_ = 0;
  std::deque<Launch> launches_;
};

// The traces of all streams. Used through LockedTraces only.
struct Traces {
  static Traces& get() {
    static Traces* const traces = new Traces;
    return *traces;
  }
  std::mutex mutex;
  std::unordered_map<NPUStream, StreamTrace> by_stream;
};

// Whether this thread holds the mutex of the traces. It must then not wait for the interpreter's lock: a thread that has the
// interpreter's lock may wait for the mutex.
thread_local constinit bool holds_traces = false;

class LockedTraces {
 public:
  LockedTraces() : lock_(Traces::get().mutex) { holds_traces = true; }
  ~LockedTraces() { holds_traces = false; }
  LockedTraces(const LockedTraces&) = delete;
  LockedTraces& operator=(const LockedTraces&) = delete;
  Traces* operator->() const { return &Traces::get(); }

 private:
  std::lock_guard<std::mutex> lock_;
};

// The names that record_launches() collects.
class Record {
 public:
  static Record& get() {
    static Record* const record = new Record;
    return *record;
  }

  void turn(bool on) {
    const std::lock_guard lock(mutex_);
    on_ = on;
  }
  void add(const char* op) {
    const std::lock_guard lock(mutex_);
    if (on_) names_.emplace_back(op);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  bool on_ = false;
  std::vector<std::string> names_;
};

// The origin function of acl/softnpu.h: the Python line that runs now.
int write_origin(char* text, size_t bytes) noexcept {
  const PythonLocation where = python_location.load(std::memory_order_acquire);
  if (where == nullptr || holds_traces || waits_are_uninterrupted() || bytes == 0) return 0;
  try {
    const std::string line = where();
    const size_t length = std::min(line.size(), bytes - 1);
    *std::copy_n(line.data(), length, text) = '\0';
    return static_cast<int>(length);
  } catch (const std::exception&) {
    return 0;
  }
}

// With ASCEND_LAUNCH_BLOCKING=1: the launch that this thread waits for.
thread_local constinit const Launch* awaited = nullptr;

std::string find_failed_launch(const std::string& message) {
  const LockedTraces traces;
  for (auto& [stream, trace] : traces->by_stream) {
    if (std::string text = trace.take_failed(message); !text.empty()) return text;
  }
  return {};
}

std::string annotate(aclError code, const char* function, const std::string& text) {
  if (awaited != nullptr) return text_of(*awaited);
  if (std::string_view(function).find("Synchronize") == std::string_view::npos || !acl::is_failed_work(code)) return {};
  if (options().debug) return find_failed_launch(text);
  if (text.find(", launched from ") != std::string::npos) return {};
  return "\nThe operator that failed was launched earlier than the call that reports it. Set TORCH_NPU_DEBUG=1 to see the Python "
         "line that launched it, or ASCEND_LAUNCH_BLOCKING=1 to make that line raise the error.";
}

// One line for TORCH_NPU_LOGS=+dispatch on stderr, and one for ASCEND_GLOBAL_LOG_LEVEL=0 or 1 in the device library's log.
void log_launch(NPUStream stream, const Launch& launch) {
  const bool is_dispatch_logged = logs(LogPart::kDispatch, LogLevel::kDebug);
  if (!is_dispatch_logged && !options().logs_operators) return;
  const std::string line = c10::str(launch.op, "(", launch.arguments, ") on stream ", stream.id(),
                                    " of npu:", static_cast<int>(stream.device_index()), "  # ", launch.python);
  if (is_dispatch_logged) log(LogPart::kDispatch, LogLevel::kDebug, line);
  if (options().logs_operators) ACL_FN(aclAppLog)(ACL_INFO, "launch", __FILE_NAME__, __LINE__, "%s", line.c_str());
}

[[maybe_unused]] const bool annotator_registered = [] {
  acl::set_annotator(acl::AnnotatorPlace::kLaunch, annotate);
  return true;
}();

}  // namespace

bool detail::must_trace() {
  return failures_name_their_launch() || logs(LogPart::kDispatch, LogLevel::kDebug) || options().logs_operators;
}

bool detail::must_name() { return options().launch_blocking || options().debug; }

void detail::trace_launch(NPUStream stream, const char* op, std::string arguments) {
  Record::get().add(op);
  const PythonLocation where = python_location.load(std::memory_order_acquire);
  Launch launch{0, op, std::move(arguments), where == nullptr ? std::string() : where()};
  log_launch(stream, launch);
  if (is_capturing(stream)) return;
  if (options().launch_blocking) {
    awaited = &launch;
    const auto reset = c10::make_scope_exit([] { awaited = nullptr; });
    stream.synchronize();
    return;
  }
  if (!options().debug) return;
  const LockedTraces traces;
  traces->by_stream.try_emplace(stream, stream).first->second.add(std::move(launch));
}

void record_launches(bool on) { Record::get().turn(on); }

std::vector<std::string> take_recorded_launches() { return Record::get().take(); }

void tell_device_origins() { acl::set_softnpu_origin(write_origin, options().debug); }

void set_python_location(PythonLocation location) { python_location.store(location, std::memory_order_release); }

}  // namespace torch_npu
